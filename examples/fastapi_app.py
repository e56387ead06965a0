from fastapi import FastAPI
from parcels import Parcels

from millpond import Pond

pond = Pond(views=[Parcels()], store="sqlite:parcels.db")
app = FastAPI(lifespan=pond.lifespan)
app.mount("/millpond", pond.app)  # push, API and dashboard


@app.post("/scans")
async def scan(payload: dict):
    return {"outcome": (await pond.publish("parcel-scans", payload)).outcome}


@app.get("/parcels/{parcel_id}")
async def parcel(parcel_id: str):
    return await pond.get("parcels", parcel_id)
