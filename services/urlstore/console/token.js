// Dialog for the token of the API.

let pending = null;

/** Shows the dialog, once for all requests that wait for it. Returns null if it was cancelled. */
export function requestToken(wasRefused) {
  pending ??= show(wasRefused).finally(() => {
    pending = null;
  });
  return pending;
}

function show(wasRefused) {
  const dialog = document.getElementById("token-dialog");
  const input = document.getElementById("token-input");
  const error = document.getElementById("token-error");
  error.hidden = !wasRefused;
  input.setAttribute("aria-invalid", String(wasRefused));
  input.value = "";
  if (!dialog.open) dialog.showModal();
  input.focus();
  return new Promise((resolve) => {
    const finish = () => {
      dialog.removeEventListener("close", finish);
      const token = dialog.returnValue === "use" ? input.value.trim() : "";
      input.value = "";
      resolve(token || null);
    };
    dialog.returnValue = "";
    dialog.addEventListener("close", finish);
  });
}

/** Connects the form of the dialog. */
export function prepareToken() {
  const dialog = document.getElementById("token-dialog");
  document.getElementById("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    dialog.close("use");
  });
  document.getElementById("token-cancel").addEventListener("click", () => dialog.close("cancel"));
}
