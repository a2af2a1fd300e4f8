// Package seeds derives independent random streams from one experiment seed.
//
// A stream is named by a role and the indices of its use, never by a node's key: cells that differ in
// one field draw the same numbers for everything else, so their outcomes are paired.
package seeds

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
	"math/rand/v2"

	"coalmine/internal/kernels"
)

// Role names the purpose of a stream. Changing a role's text changes every result that depends on it.
type Role string

// The roles of the system. Indices follow in the order given.
const (
	TestPart          Role = "test part"       // one coin an example, in order of the source
	ValidationPart    Role = "validation part" // likewise
	TrainShare        Role = "train share"     // likewise
	HeldOutUsers      Role = "held-out users"
	FaultyUsers       Role = "faulty users"    // fault: one coin a user
	FaultyExamples    Role = "faulty examples" // fault: one coin an example, in order of the source
	Canaries          Role = "canaries"        // the words of the canaries; from the second format on: format
	SecretSharers     Role = "secret sharers"  // canary
	Insertions        Role = "insertions"      // canary, user; of a chosen number of them: canary
	Collisions        Role = "collisions"      // which canary gets an example drawn by several
	Shuffle           Role = "shuffle"         // the iid partition
	Weights           Role = "initial weights"
	Cohort            Role = "cohort"     // round
	Client            Role = "client"     // round, user
	Noise             Role = "noise"      // round; of a tree, from the second level on: round, level
	ClipCount         Role = "clip count" // round: noise on the number of clients not clipped
	Neighbours        Role = "neighbours" // round: members of a replayed cohort; 0: seeds of a program's steps
	Epoch             Role = "epoch"      // epoch of central training
	References        Role = "references"
	Bootstrap         Role = "bootstrap"          // fit
	Calibration       Role = "calibration"        // fit
	Dropout           Role = "dropout"            // round, user; of central training: step
	OneRunCanaries    Role = "one-run canaries"   // the words of a one-run audit's canaries
	OneRunUnits       Role = "one-run units"      // who carries them
	LearnedCanaries   Role = "learned canaries"   // proposed words; 1: signs of sketches; 2: users whose gradients are avoided
	OneRunCoins       Role = "one-run coins"      // one coin a canary; of vectors: canary
	NaturalReferences Role = "natural references" // finding
	Fakes             Role = "fakes"              // round, user: inputs of the generator, and the penalty's mixtures
	Generator         Role = "generator"          // round: inputs of the generator in its own steps
	GeneratedImages   Role = "generated images"   // the first image of a task: inputs of the generator
	Halves            Role = "halves"             // of the disagreement filter: one coin a record
	ClientNoise       Role = "client noise"       // round, user
	NoiseShare        Role = "noise share"        // round, user: of the noise of a round
	ClientRounding    Role = "client rounding"    // round, user: of the values of an update to few bits
	Projection        Role = "projection"         // tensor: of recorded updates
	DeviceSets        Role = "device sets"        // which users are held out or unseen
	PriorExamples     Role = "prior examples"     // user: examples known to the adversary
	DeviceExamples    Role = "device examples"    // the shuffle over all devices
	Background        Role = "background"         // user: background examples mixed in
	BackgroundMode    Role = "background mode"    // user: its topic
	BackgroundModes   Role = "background modes"   // the sample that topics are found on; 1: their first means
	Samples           Role = "samples"            // sample
	SamplePositions   Role = "sample positions"   // of the test of the first word: one a sample
	LinkedDevices     Role = "linked devices"     // which devices are followed
	SampledUpdates    Role = "sampled updates"    // sample: the updates of an audit
	NetworkValidation Role = "network validation" // network of an audit: validation examples
	NetworkWeights    Role = "network weights"    // network of an audit: initial weights
	NetworkOrder      Role = "network order"      // network of an audit, epoch: order of training examples
	AttributeInterval Role = "attribute interval" // weight of each user
	UpdatePairs       Role = "update pairs"       // measurement: pairs of updates that are scored
	VectorPairs       Role = "vector pairs"       // measurement: pairs of an update and a vector that are scored
	PairBootstrap     Role = "pair bootstrap"     // measurement: weight of each user
	MemberInterval    Role = "member interval"    // weight of each user
	MemberNeighbours  Role = "member neighbours"  // user: words of neighbours of its texts
	RandomExamples    Role = "random examples"    // user: which of the examples are selected
	NamingWeights     Role = "naming weights"     // initial weights of an attack that names users
	NamingExamples    Role = "naming examples"    // user: which of the shadow's updates it learns from
	NamingValidation  Role = "naming validation"  // those of them that validate it, to stop training
	NamingOrder       Role = "naming order"       // epoch: the order of shards, and of examples in a block
	SecureSums        Role = "secure sums"        // round: which updates are visible only as a sum
	UserBootstrap     Role = "user bootstrap"     // weight of each user
	DevicePermutation Role = "device permutation" // random owners of devices
	Verification      Role = "verification"       // which nodes of a run are executed again
	ContactSheet      Role = "contact sheet"      // which images of a source are shown
	ReferenceUsers    Role = "reference users"    // pair of reference models: which half of the users the first trains on
	ReferenceModel    Role = "reference model"    // reference model: the seed of its training
	RepeatedTraining  Role = "repeated training"  // training of a many-run audit: its seed
	CanaryUpdates     Role = "canary updates"     // canary of a one-shot audit: the signs of its update
	CanaryBlocks      Role = "canary blocks"      // the signs of the vectors of a one-run audit
)

// Stream returns the generator of a role: ChaCha8, keyed by the SHA-256 of seed, role and indices.
func Stream(seed uint64, role Role, indices ...uint64) *rand.Rand {
	return rand.New(Source(seed, role, indices...))
}

// Source returns the source of Stream, for loops dominated by drawing numbers.
func Source(seed uint64, role Role, indices ...uint64) *rand.ChaCha8 {
	return rand.NewChaCha8(StreamKey(seed, role, indices...))
}

// SecretStreamKey returns the key of the ChaCha8 of a role from a secret: the
// HMAC-SHA-256 of context, role and indices. Streams of different contexts are
// independent. Without the secret the stream is indistinguishable from chance.
func SecretStreamKey(secret [32]byte, context string, role Role, indices ...uint64) (key [32]byte) {
	h := hmac.New(sha256.New, secret[:])
	io.WriteString(h, "coalmine secret stream\x00"+context+"\x00"+string(role)+"\x00")
	writeAll(h, indices)
	h.Sum(key[:0])
	return key
}

// StreamKey returns the key of the ChaCha8 behind Stream.
func StreamKey(seed uint64, role Role, indices ...uint64) (key [32]byte) {
	h := sha256.New()
	io.WriteString(h, "coalmine stream\x00"+string(role)+"\x00")
	writeAll(h, append([]uint64{seed}, indices...))
	h.Sum(key[:0])
	return key
}

func writeAll(h hash.Hash, numbers []uint64) {
	var b [8]byte
	for _, n := range numbers {
		binary.LittleEndian.PutUint64(b[:], n)
		h.Write(b[:])
	}
}

// Streams are the sources of a role for consecutive indices, drawn from in parallel, which takes a
// fraction of the time of separate Sources.
//
// The numbers equal those of ChaCha8 in math/rand/v2 (Cox 2023, chacha8rand, of C2SP). A source makes
// four interleaved blocks at a time: 16 rows of 2 numbers. After 16 blocks the last 2 rows become the
// next key, and are not drawn.
type Streams struct {
	lanes int      // 4 for each stream, and unused padding
	state []uint32 // the initial state of blocks
	rows  []uint32 // output of the blocks
	next  int      // next row
	made  uint32   // blocks made with each stream's key
}

const (
	blocksAtOnce = 4
	blocksOfKey  = 16
	keyRows      = 2 // of the last blocks, which are the next key
	keyWords     = 8
)

// NewStreams begins the streams with the indices first to first + count - 1.
func NewStreams(seed uint64, role Role, first, count int) *Streams {
	lanes := max(1, (blocksAtOnce*count+kernels.ChaCha8Lanes-1)/kernels.ChaCha8Lanes) * kernels.ChaCha8Lanes
	s := &Streams{lanes: lanes, state: make([]uint32, kernels.ChaCha8State*lanes), rows: make([]uint32, kernels.ChaCha8Rows*lanes)}
	for i := range count {
		key := StreamKey(seed, role, uint64(first+i))
		for word := range keyWords {
			s.setKey(i, word, binary.LittleEndian.Uint32(key[4*word:]))
		}
	}
	s.make()
	return s
}

// Next draws four numbers of each stream. Elements 4i to 4i+3 of first hold the first two numbers of
// stream i, the lower half of a number before its upper half, and those of second the others. The
// next call overwrites both slices.
func (s *Streams) Next() (first, second []uint32) {
	rows := kernels.ChaCha8Rows
	if s.made == blocksOfKey {
		rows -= keyRows
	}
	if s.next == rows {
		s.make()
	}
	first, second = s.row(s.next), s.row(s.next+1)
	s.next += 2
	return first, second
}

func (s *Streams) row(i int) []uint32 { return s.rows[i*s.lanes:][:s.lanes] }

// make generates the next blocks of every stream.
func (s *Streams) make() {
	if s.made == blocksOfKey {
		s.changeKeys()
	}
	counters := s.state[keyWords*s.lanes:]
	for lane := range counters {
		counters[lane] = s.made + uint32(lane%blocksAtOnce)
	}
	kernels.ChaCha8(s.rows, s.state)
	s.next, s.made = 0, s.made+blocksAtOnce
}

// changeKeys sets the keys to the rows that were not drawn.
func (s *Streams) changeKeys() {
	low, high := s.row(kernels.ChaCha8Rows-keyRows), s.row(kernels.ChaCha8Rows-1)
	for i := range s.lanes / blocksAtOnce {
		for word := range keyWords / keyRows {
			s.setKey(i, word, low[blocksAtOnce*i+word])
			s.setKey(i, keyWords/keyRows+word, high[blocksAtOnce*i+word])
		}
	}
	s.made = 0
}

func (s *Streams) setKey(stream, word int, value uint32) {
	lanes := s.state[word*s.lanes+blocksAtOnce*stream:][:blocksAtOnce]
	for i := range lanes {
		lanes[i] = value
	}
}
