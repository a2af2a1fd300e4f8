// Makes the tokenizers of this folder and, by the tokenizers library, the ids of texts:
//
//	npm install tokenizers@0.23.2   # the library, https://github.com/huggingface/tokenizers
//	node make.js CORPUS SPM_TRAIN   # a text file such as tinyshakespeare; the program of SentencePiece
//
// The byte-level merges are the first ones that the library's trainer finds, the other pieces
// those of SentencePiece. Each NAME.json gets a NAME.jsonl of texts with their ids, without
// the special tokens that a post-processor adds.
const fs = require('fs'), os = require('os'), path = require('path')
const { execFileSync } = require('child_process')
const lib = require('tokenizers')

const [corpus, spmTrain] = process.argv.slice(2)
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'subwords'))
const gpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
const llama3 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
const o200k = "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

function added(id, content, more = {}) {
  return { id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true, ...more }
}
function file(model, normalizer, preTokenizer, addedTokens) {
  return { version: '1.0', truncation: null, padding: null, added_tokens: addedTokens, normalizer, pre_tokenizer: preTokenizer, post_processor: null, decoder: null, model }
}
const byteLevel = (more = {}) => ({ type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true, ...more })
const split = (Regex, more = {}) => ({ type: 'Split', pattern: { Regex }, behavior: 'Isolated', invert: false, ...more })
const sequence = (...pretokenizers) => ({ type: 'Sequence', pretokenizers })
const normalizers = (...normalizers) => ({ type: 'Sequence', normalizers })

// byteMerges trains byte-level merges and keeps the first n.
function byteMerges(n, preTokenizer) {
  const t = lib.Tokenizer.fromString(JSON.stringify(file({ type: 'BPE', vocab: {}, merges: [] }, null, preTokenizer, [])))
  t.train([corpus])
  const out = path.join(work, 'bpe.json')
  t.save(out, false)
  const merges = JSON.parse(fs.readFileSync(out)).model.merges.slice(0, n)
  const vocab = {}
  for (const c of lib.byteLevelAlphabet().sort()) vocab[c] = Object.keys(vocab).length
  for (const [a, b] of merges) if (!(a + b in vocab)) vocab[a + b] = Object.keys(vocab).length
  return { vocab, merges }
}
const bpe = (m, more = {}) => ({ type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, ignore_merges: false, ...m, ...more })

// sentencePiece trains a model, and returns pieces with scores and the map of characters.
function sentencePiece(...flags) {
  const prefix = path.join(work, 'spm')
  execFileSync(spmTrain, [`--input=${corpus}`, `--model_prefix=${prefix}`, '--num_threads=1', ...flags], { stdio: 'ignore' })
  const message = (bytes) => {
    const fields = []
    for (let i = 0; i < bytes.length;) {
      const varint = () => { let n = 0, s = 1; for (;;) { const b = bytes[i++]; n += (b & 127) * s; s *= 128; if (b < 128) return n } }
      const key = varint()
      switch (key & 7) {
        case 0: fields.push([key >> 3, varint()]); break
        case 1: i += 8; break
        case 2: { const n = varint(); fields.push([key >> 3, bytes.subarray(i, i += n)]); break }
        case 5: fields.push([key >> 3, bytes.readFloatLE(i)]); i += 4
      }
    }
    return fields
  }
  const model = message(fs.readFileSync(prefix + '.model'))
  const pieces = model.filter(([f]) => f === 1).map(([, m]) => { const p = Object.fromEntries(message(m)); return [p[1].toString(), p[2]] })
  const charsmap = Object.fromEntries(message(Object.fromEntries(model)[3]))[2]
  return { pieces, charsmap: charsmap && charsmap.toString('base64') }
}
// mergesOf lists the merges of pieces as the conversion of Llama's tokenizer does: by the
// rank of the merged piece, then by those of its two.
function mergesOf(pieces) {
  const rank = new Map(pieces.map(([p], i) => [p, i])), merges = []
  pieces.forEach(([p]) => {
    const found = []
    for (let i = 1; i < p.length; i++) if (rank.has(p.slice(0, i)) && rank.has(p.slice(i))) found.push([p.slice(0, i), p.slice(i)])
    found.sort((a, b) => rank.get(a[0]) - rank.get(b[0]) || rank.get(a[1]) - rank.get(b[1]))
    merges.push(...found)
  })
  return merges
}

function tokenizers() {
  const gpt2Merges = byteMerges(230, byteLevel())
  const end = 486
  const rules = path.join(work, 'rules.tsv')
  fs.writeFileSync(rules, [['FB01', '66 69'], ['FF21', '41'], ['65 301', 'E9'], ['2126', '3A9'], ['9', '20'], ['A', '20'], ['A0', '20'], ['200B', ''], ['2026', '2E 2E 2E'], ['E33', 'E32']].map((r) => r.join('\t')).join('\n') + '\n')
  const llama = sentencePiece('--model_type=bpe', '--vocab_size=520', '--byte_fallback=true', '--character_coverage=0.99', '--normalization_rule_name=identity', '--remove_extra_whitespaces=false')
  const unigram = sentencePiece('--model_type=unigram', '--vocab_size=400', `--normalization_rule_tsv=${rules}`, '--pad_id=0', '--eos_id=1', '--unk_id=2', '--bos_id=-1')
  const fallback = sentencePiece('--model_type=unigram', '--vocab_size=520', '--byte_fallback=true', '--character_coverage=0.99', '--normalization_rule_name=identity')
  return {
    gpt2: file(bpe(gpt2Merges), null, byteLevel(), [added(end, '<|endoftext|>')]),
    pythia: file(bpe(gpt2Merges, { merges: gpt2Merges.merges.map((m) => m.join(' ')) }), { type: 'NFC' }, byteLevel({ use_regex: undefined, add_prefix_space: true }),
      [added(end, '<|endoftext|>'), added(end + 1, '<|padding|>'), ...[4, 3, 2].map((n, i) => added(end + 2 + i, ' '.repeat(n), { normalized: true, special: false }))]),
    llama3: file(bpe(byteMerges(230, sequence(split(llama3), byteLevel({ use_regex: false }))), { ignore_merges: true }), null, sequence(split(llama3), byteLevel({ use_regex: false })), [added(end, '<|begin_of_text|>'), added(end + 1, '<mask>', { lstrip: true, rstrip: true })]),
    o200k: file(bpe(gpt2Merges), null, sequence(split(o200k, { behavior: 'Removed', invert: true }), { type: 'Digits', individual_digits: true }, byteLevel({ use_regex: false })), [added(end, '<|endoftext|>')]),
    llama2: file(bpe({ vocab: Object.fromEntries(llama.pieces.map(([p], i) => [p, i])), merges: mergesOf(llama.pieces) }, { unk_token: '<unk>', fuse_unk: true, byte_fallback: true }),
      normalizers({ type: 'Prepend', prepend: '▁' }, { type: 'Replace', pattern: { String: ' ' }, content: '▁' }), null, ['<unk>', '<s>', '</s>'].map((c, i) => added(i, c))),
    gemma: file(bpe({ vocab: Object.fromEntries(llama.pieces.slice(259).map(([p], i) => [p, i + 1]).concat([['<unk>', 0]])), merges: mergesOf(llama.pieces.slice(259)) }, { unk_token: '<unk>' }),
      { type: 'Replace', pattern: { String: ' ' }, content: '▁' }, sequence(...[[' ', 'MergedWithPrevious'], ['-', 'MergedWithPrevious'], [',', 'MergedWithNext'], ['.', 'Contiguous']].map(([String, behavior]) => ({ type: 'Split', pattern: { String }, behavior, invert: false }))), [added(0, '<unk>')]),
    t5: file({ type: 'Unigram', unk_id: 2, vocab: unigram.pieces, byte_fallback: false }, { type: 'Precompiled', precompiled_charsmap: unigram.charsmap },
      sequence({ type: 'WhitespaceSplit' }, { type: 'Metaspace', replacement: '▁', add_prefix_space: true }), [added(0, '<pad>'), added(1, '</s>'), added(2, '<unk>'), added(400, '<extra_id_0>')]),
    unigram: file({ type: 'Unigram', unk_id: 0, vocab: fallback.pieces, byte_fallback: true },
      normalizers({ type: 'Strip', strip_left: false, strip_right: true }, { type: 'Replace', pattern: { Regex: ' {2,}' }, content: '▁' }), { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: false }, [added(1, '<s>'), added(2, '</s>')]),
  }
}

// random numbers by a linear congruence, so that every run makes the same texts.
let state = 20201
function random(n) { state = (state * 1103515245 + 12345) % 2147483648; return Math.floor(state / 65536) % n }

function texts() {
  const lines = fs.readFileSync(corpus, 'utf8').split('\n')
  const out = ['', ' ', '  ', '\n', 'a', ' a', 'a ', "I'll say it's O'Neill's, they'Re WE'VE 'S 'ſ 'LL", '  two  spaces   three    four     five', 'tab\tand\r\nnewline\n\n\n  indented', 'x\u00a0y\u0085z\u3000w\u2003v\u200bu',
    '12 345 6789 01234567 3.14 ½ Ⅷ ٣٤٥ ²', 'naïve café e\u0301 cafe\u0301 Ω \u2126 ﬁne Ａ…', '日本語のテキスト 中文字符 한국어', 'ภาษาไทย กำ \u0e33', 'हिन्दी क्षि', '👩‍👩‍👧 🏳️‍🌈 👍🏽 é👍', '\u0000\u0001\u007f', 'a\u0301\u0301\u0301b',
    '<|endoftext|>', 'before<|endoftext|>after <|endoftext|> end', '<s>hello</s> <unk> world', '  <mask>  x<mask>', '<pad><extra_id_0> x', '▁under ▁▁ _', '<0x41> <0x0A>', 'ALL CAPS Mixed CamelCase HTTPServer x1y2', '!!! ... --- ?!; "quoted" (paren) [x] {y} #tag @me a/b/c\n/', 'https://example.org/a?b=c&d=1', 'trailing   ', '   leading', '\t\t\ttabs', 'ſtraße İstanbul ǅ', 'the quick brown fox jumps over the lazy dog', 'antidisestablishmentarianism', 'zzzzzzzzqqqqqqqqxxxxxxxx']
  for (let i = 0; i < 24; i++) out.push(lines[random(lines.length)])
  for (let i = 0; i < 6; i++) { const at = random(lines.length - 6); out.push(lines.slice(at, at + 5).join('\n')) }
  const alphabet = [...'aeiou tnrs  ,.\'’"\n\t019éßñÀ▁Ġ中ก́ा👍\u200d\u00a0\r-']
  for (let i = 0; i < 24; i++) { let s = ''; for (let n = random(30) + 1; n > 0; n--) s += alphabet[random(alphabet.length)]; out.push(s) }
  return out
}

async function main() {
  const all = texts()
  for (const [name, content] of Object.entries(tokenizers())) {
    const json = JSON.stringify(content)
    fs.writeFileSync(path.join(__dirname, name + '.json'), json + '\n')
    const t = lib.Tokenizer.fromString(json)
    const lines = []
    for (const text of all) {
      const e = await t.encode(text, null, { addSpecialTokens: false })
      lines.push(JSON.stringify({ text, ids: e.getIds() }))
    }
    fs.writeFileSync(path.join(__dirname, name + '.jsonl'), lines.join('\n') + '\n')
  }
  fs.rmSync(work, { recursive: true })
}
main()
