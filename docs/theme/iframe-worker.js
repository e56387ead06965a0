// Lets the search work on pages that are opened from the disk, where browsers refuse to start a worker: a hidden frame
// stands in for it. The site's bundle creates the worker; mkdocs.yml puts this script before the bundle.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.frame = frame.contentWindow;
      const script = document.createElement("script");
      this.ready = new Promise((resolve) => script.addEventListener("load", resolve));
      this.frame.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      script.src = url;
      this.frame.document.body.append(script);
    }

    async postMessage(data) {
      await this.ready;
      this.frame.dispatchEvent(new this.frame.MessageEvent("message", { data }));
    }
  };
}
