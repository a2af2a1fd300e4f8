// Answers of the API hold text of other people: labels, names of files, messages of programs.
// HTML cannot be written with it, since Svelte escapes it; this escapes characters that have no
// shape of their own, such as marks of writing direction, so that texts which differ look different.

const invisible = /(?![\n\t ])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]/gu;
// Go writes <, > and & as escapes too, which are visible.
const escapes = /\\u(?!003[ce]|0026)|[^\n\t -~]/;

/** visible escapes the characters of a text that have no shape, but for line breaks and tabs. */
export const visible = (text: string) =>
  text.replace(invisible, (c) => [...Array(c.length).keys()].map((i) => '\\u' + c.charCodeAt(i).toString(16).padStart(4, '0')).join(''));

/** parse reads JSON, and makes its texts visible. */
export const parse = (json: string) =>
  JSON.parse(json, escapes.test(json) ? (_, value) => (typeof value === 'string' ? visible(value) : value) : undefined);
