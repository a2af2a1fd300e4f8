/** every calls a function repeatedly while the page is visible, until the returned function is called. */
export function every(ms: number, what: () => void): () => void {
  const timer = setInterval(() => document.hidden || what(), ms);
  return () => clearInterval(timer);
}

/** kept is the old value if the new one is equal, so that nothing is drawn again. */
export const kept = <T>(before: T, now: T): T => (JSON.stringify(before) === JSON.stringify(now) ? before : now);

/**
 * paced calls a function at once, but not within some milliseconds of the last call,
 * nor before that has ended: otherwise requests to a slow server pile up, and an old
 * answer comes after a new one. A slow function runs a fifth of the time at most. The
 * returned function cancels the call.
 */
export function paced(ms: number): (what: () => unknown) => () => void {
  let next = -Infinity;
  let before: Promise<unknown> = Promise.resolve();
  const call = async (what: () => unknown) => {
    const began = performance.now();
    next = began + ms;
    await Promise.resolve(what()).catch(() => undefined);
    next = Math.max(next, performance.now() + 4 * (performance.now() - began));
  };
  return (what) => {
    let wanted = true;
    let timer: ReturnType<typeof setTimeout>;
    void before.then(() => {
      if (wanted) timer = setTimeout(() => (before = call(what)), Math.max(0, next - performance.now()));
    });
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  };
}
