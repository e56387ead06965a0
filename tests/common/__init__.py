"""What tests of different folders share."""
