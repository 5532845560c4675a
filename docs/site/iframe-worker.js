/* Search in pages that are opened as files. Browsers do not start workers from file: URLs, so the search worker runs in a hidden
   iframe. On a server this script does nothing. */
(function () {
  if (window.location.protocol !== "file:") return;
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inner = frame.contentWindow;
      const page = frame.contentDocument;
      page.open();
      page.write("<html><body></body></html>");
      page.close();
      const script = (source) => new Promise((resolve, reject) => {
        const element = page.createElement("script");
        element.onload = resolve;
        element.onerror = reject;
        element.src = source;
        page.body.append(element);
      });
      this.inner.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => script(new URL(source, url))), Promise.resolve());
      this.inner.postMessage = (data) => this.answer(data);
      this.ready = script(url);
    }
    answer(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (typeof this.onmessage === "function") this.onmessage(event);
    }
    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data })));
    }
    terminate() {
      this.inner.frameElement.remove();
    }
  };
})();
