import { message } from './api';

const retryAfter = 5000; // ms until what has failed is tried again

/** Attempts are a view's requests beside its stream, which may fail while the server is away. */
export class Attempts {
  /** trouble is the error of the last one; '' if it succeeded. */
  trouble = $state('');
  /** failed counts the failed ones, some seconds later; effects that read it repeat their requests. */
  failed = $state(0);

  async make(what: () => Promise<void>) {
    try {
      await what();
      this.trouble = '';
    } catch (e) {
      this.trouble = message(e);
      setTimeout(() => this.failed++, retryAfter);
    }
  }
}
