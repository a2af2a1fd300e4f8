import type { Attachment } from 'svelte/attachments';

let count = 0;

/** explained shows a text below an element while the pointer or the focus is there, until Escape. */
export const explained = (text: string | undefined): Attachment<HTMLElement> => (element) => {
  if (!text) return;
  const tip = document.createElement('div');
  Object.assign(tip, { id: `tip-${++count}`, className: 'tip', role: 'tooltip', popover: 'manual', textContent: text });
  (element.closest('main') ?? document.body).append(tip);
  element.setAttribute('aria-describedby', tip.id);
  const show = () => {
    tip.showPopover();
    const at = element.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(at.left, document.documentElement.clientWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${at.bottom + tip.offsetHeight < innerHeight ? at.bottom : at.top - tip.offsetHeight}px`;
  };
  const hide = () => tip.hidePopover();
  const leave = (e: PointerEvent) => [element, tip].some((n) => n.contains(e.relatedTarget as Node)) || hide();
  const ends = new AbortController();
  const on = { signal: ends.signal };
  for (const n of [element, tip]) n.addEventListener('pointerleave', leave, on);
  element.addEventListener('pointerenter', show, on);
  element.addEventListener('focus', show, on);
  element.addEventListener('blur', hide, on);
  document.addEventListener('keydown', (e) => e.key === 'Escape' && hide(), on);
  return () => {
    ends.abort();
    tip.remove();
  };
};
