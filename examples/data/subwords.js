// Makes subwords.json, a byte-level tokenizer as GPT-2 has it, of 1000 tokens, by the
// tokenizers library of Hugging Face:
//
//	npm install tokenizers@0.23.2
//	node examples/data/subwords.js examples/data/state-of-the-union.jsonl.gz
const fs = require('fs'), os = require('os'), path = require('path'), zlib = require('zlib')
const lib = require('tokenizers')

const size = 1000
const texts = zlib.gunzipSync(fs.readFileSync(process.argv[2])).toString().trim().split('\n').map((line) => JSON.parse(line).text)
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'subwords'))
const corpus = path.join(work, 'corpus.txt'), trained = path.join(work, 'trained.json')
// Examples begin with a space, so that their first words are those of other places.
fs.writeFileSync(corpus, texts.map((text) => ' ' + text).join('\n') + '\n')

const file = (vocab, merges) => ({
  version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null,
  pre_tokenizer: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
  post_processor: null, decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
  model: { type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, ignore_merges: false, vocab, merges },
})
const tokenizer = lib.Tokenizer.fromString(JSON.stringify(file({}, [])))
tokenizer.train([corpus])
tokenizer.save(trained, false)
const vocab = {}, merges = JSON.parse(fs.readFileSync(trained)).model.merges.slice(0, size - 256)
for (const c of lib.byteLevelAlphabet().sort()) vocab[c] = Object.keys(vocab).length
for (const [a, b] of merges) vocab[a + b] = Object.keys(vocab).length
fs.writeFileSync(path.join(__dirname, 'subwords.json'), JSON.stringify(file(vocab, merges)) + '\n')
fs.rmSync(work, { recursive: true })
