// Access to the browser's local storage. Without storage, nothing is stored.

/** Returns the text stored under quantix.<name>, or null. */
export function recall(name) {
  try { return localStorage.getItem(`quantix.${name}`); } catch { return null; }
}

/** Stores text under quantix.<name>; null removes the entry. */
export function remember(name, text) {
  try {
    if (text === null) localStorage.removeItem(`quantix.${name}`);
    else localStorage.setItem(`quantix.${name}`, text);
  } catch { /* storage is full or disabled: the page works without it */ }
}
