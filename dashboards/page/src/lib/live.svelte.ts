import { api, ask, message } from './api';
import { parse } from './visible';

const retryAfter = 5000; // ms until a stream that was refused is tried again
const lookAgain = 20000; // ms until a finished run is looked at again

/**
 * Live is the newest state that a stream of events has told. It rests while nobody looks at
 * the page, since browsers keep few connections to one server.
 */
export class Live<T> {
  value = $state.raw<T>();
  /** connection is how the stream stands, for people: "connecting …" only while it is opened. */
  connection = $state('');
  /** trouble is why there is nothing newer, '' if nothing is wrong. */
  trouble = $state('');
  private last = '';
  private ended = false; // a finished run is looked at again without a word
  private source: EventSource | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private path: string) {}

  /** start follows until the function that it returns is called. */
  start(): () => void {
    const look = () => (document.hidden ? this.close() : this.open());
    document.addEventListener('visibilitychange', look);
    this.open();
    return () => {
      document.removeEventListener('visibilitychange', look);
      this.close();
    };
  }

  /** open begins anew: a run that had ended may go on. */
  open() {
    this.close();
    const source = new EventSource(`${api}${this.path}/events`);
    this.source = source;
    if (!this.ended) this.connection = 'connecting …';
    source.addEventListener('open', () => this.ended || (this.connection = 'live'));
    source.addEventListener('status', (e) => this.take(e.data));
    source.addEventListener('trouble', (e) => (this.trouble = parse((e as MessageEvent).data).error));
    source.addEventListener('end', () => {
      this.ended = true;
      this.connection = 'finished';
      this.again(lookAgain);
    });
    source.addEventListener('error', () => this.lost(source));
  }

  private take(data: string) {
    this.trouble = '';
    if (data === this.last) return;
    this.ended = false;
    this.connection = 'live';
    this.last = data;
    this.value = parse(data) as T;
  }

  /** lost asks why: the server may be away, refuse, or want a login. */
  private async lost(source: EventSource) {
    if (source.readyState === EventSource.CLOSED) this.again(retryAfter);
    this.ended = false;
    this.connection = 'not connected';
    try {
      await ask(this.path || '/runs');
      if (source === this.source) this.trouble = '';
    } catch (e) {
      this.trouble = message(e);
    }
  }

  private again(ms: number) {
    this.close();
    if (!document.hidden) this.timer = setTimeout(() => this.open(), ms);
  }

  private close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = undefined;
  }
}
