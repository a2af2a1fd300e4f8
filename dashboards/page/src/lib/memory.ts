// The display settings that the browser keeps.

const prefix = 'coalmine.';

export function remembered(name: string): string {
  try {
    return localStorage.getItem(prefix + name) ?? '';
  } catch {
    return ''; // a browser may forbid it
  }
}

export function remember(name: string, text: string) {
  try {
    if (text) localStorage.setItem(prefix + name, text);
    else localStorage.removeItem(prefix + name);
  } catch {
    // the address has it
  }
}
