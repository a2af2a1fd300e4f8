package modelaudit

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"coalmine/internal/encoding"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/membership/membership"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/external"
)

// Owner is a user with texts, or a text without a user.
type Owner struct {
	User  string
	Texts []string
}

// maxTextLine bounds a line of a file of texts, in bytes.
const maxTextLine = 16 << 20

// ReadOwners reads a file of texts. Each line is an object {"user": "17", "text": "..."}, or a text, which
// is a separate owner. It skips empty lines. Errors name the file by name.
func ReadOwners(name string, file io.Reader) ([]Owner, error) {
	var owners []Owner
	places := map[string]int{} // by user
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxTextLine)
	for number := 1; lines.Scan(); number++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var fields struct {
			User *string `json:"user"`
			Text *string `json:"text"`
		}
		if line[0] != '{' {
			fields.Text = new(string(line))
		} else if err := encoding.UnmarshalJSON(line, &fields); err != nil || fields.Text == nil {
			return nil, fmt.Errorf(`%s, line %d: not a JSON object with a text; expected {"user": "17", "text": "..."}, without user if texts have none, or one text per line`, name, number)
		}
		place, known := -1, false
		if fields.User != nil {
			place, known = places[*fields.User]
		}
		if !known {
			place = len(owners)
			owners = append(owners, Owner{})
		}
		if fields.User != nil {
			owners[place].User, places[*fields.User] = *fields.User, place
		}
		owners[place].Texts = append(owners[place].Texts, *fields.Text)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(owners) == 0 {
		return nil, fmt.Errorf("%s: the file has no texts; expected one per line", name)
	}
	return owners, nil
}

// Membership is a test whether a model distinguishes the owners of texts on which it was trained from other owners.
type Membership struct {
	Members, NonMembers []Owner
	// Sequence is the maximum number of words or bytes of a text, as data.sequence of an experiment; 0
	// means its default.
	Sequence int
	// PrefixUsers is the number of first non-members whose texts prefix a second scoring of all other texts
	// (ReCaLL). NeighbourTexts is the number of neighbours of each text, as in membership.LossParams.
	PrefixUsers, NeighbourTexts int
	// Seed is the seed of intervals and neighbours.
	Seed uint64
}

// MembershipReport is the evidence for membership in a model's losses, as in the membership audit of a run.
type MembershipReport struct {
	// By is the unit of membership: "users" or "texts".
	By string `json:"by"`
	// SharedTexts is the number of texts of non-members that members have, too. The model was trained on
	// them, which weakens the evidence.
	SharedTexts int `json:"shared_texts,omitempty"`
	membership.Outcome
}

const maxNeighbours = 100

func (m *Membership) check() error {
	if m.Sequence < 0 || m.Sequence > text.MaxSequence {
		return fmt.Errorf("texts cut at %d words or bytes: expected 1 to %d, or 0 for the default", m.Sequence, text.MaxSequence)
	}
	if m.PrefixUsers < 0 || m.PrefixUsers >= len(m.NonMembers) {
		return fmt.Errorf("the texts of %d non-members as prefix: expected fewer than all %d non-members, because the others are compared with members", m.PrefixUsers, len(m.NonMembers))
	}
	if m.NeighbourTexts < 0 || m.NeighbourTexts > maxNeighbours {
		return fmt.Errorf("%d neighbours of each text: expected 0 to %d", m.NeighbourTexts, maxNeighbours)
	}
	members := map[string]bool{}
	for _, owner := range m.Members {
		members[owner.name()] = true
	}
	for i, shared := range m.shared() {
		owner := &m.NonMembers[i]
		if members[owner.name()] {
			return fmt.Errorf("%.80s is both a member and a non-member; remove it from one of the files", owner.name())
		}
		if len(shared) == len(owner.Texts) {
			return fmt.Errorf("%.80s is a non-member, but members have all of its texts, such as %.80q; expected texts that the model was not trained on: remove it from one of the files", owner.name(), shared[0])
		}
	}
	return nil
}

// shared returns, for each non-member, the texts that members have, too.
func (m *Membership) shared() [][]string {
	texts := map[string]bool{}
	for _, owner := range m.Members {
		for _, text := range owner.Texts {
			texts[strings.TrimSpace(text)] = true
		}
	}
	shared := make([][]string, len(m.NonMembers))
	for i, owner := range m.NonMembers {
		for _, text := range owner.Texts {
			if texts[strings.TrimSpace(text)] {
				shared[i] = append(shared[i], text)
			}
		}
	}
	return shared
}

// sequence returns the maximum number of words or bytes of a text.
func (m *Membership) sequence(l text.Level) int { return cmp.Or(m.Sequence, l.Scheme().Sequence) }

// name returns a unique name of the owner.
func (o *Owner) name() string {
	if o.User != "" {
		return fmt.Sprintf("user %q", o.User)
	}
	return fmt.Sprintf("text %q", o.Texts[0])
}

func (m *Membership) by() string {
	if slices.ContainsFunc(slices.Concat(m.Members, m.NonMembers), func(o Owner) bool { return o.User != "" }) {
		return "users"
	}
	return "texts"
}

// textLoss is the loss of a text in nats, over its targets. scores or logProbs hold values for each target,
// if the model provides them.
type textLoss struct {
	targets  int64
	loss     float64
	logProbs []float64
	scores   []models.TokenScore
}

// lossesOf scores texts by a model, each after the texts in before.
type lossesOf func(ctx context.Context, before, texts [][]int32) ([]textLoss, error)

// ownedTexts holds the nonempty texts of owners, in tokens.
type ownedTexts struct {
	texts  [][]int32
	owners []int
}

func (m *Membership) encodeAll(l *lexicon, owners []Owner) (all ownedTexts, err error) {
	for i, o := range owners {
		for _, text := range o.Texts {
			tokens, err := m.encode(l, text)
			if err != nil {
				return all, err
			}
			if len(tokens) > 0 {
				all.texts, all.owners = append(all.texts, tokens), append(all.owners, i)
			}
		}
	}
	return all, nil
}

// judge attacks the model by the losses of the owners' texts, in tokens of a lexicon.
func (m *Membership) judge(ctx context.Context, l lexicon, losses lossesOf) (*MembershipReport, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	owners := slices.Concat(m.Members, m.NonMembers)
	all, err := m.encodeAll(&l, owners)
	if err != nil {
		return nil, err
	}
	found, err := losses(ctx, nil, all.texts)
	if err != nil {
		return nil, err
	}
	users := make([]membership.UserLoss, len(owners))
	scores, logProbs := make([][]models.TokenScore, len(owners)), make([][]float64, len(owners))
	for i, x := range found {
		owner := all.owners[i]
		users[owner].Targets += x.targets
		users[owner].Loss += x.loss
		scores[owner], logProbs[owner] = append(scores[owner], x.scores...), append(logProbs[owner], x.logProbs...)
	}
	for i := range users {
		switch {
		case len(scores[i]) > 0:
			users[i] = membership.LossOf(scores[i])
		case len(logProbs[i]) > 0:
			users[i].OfTargets(logProbs[i])
		}
		users[i].Member = i < len(m.Members)
	}
	if err := m.compare(ctx, &all, users, losses); err != nil {
		return nil, err
	}
	return m.attack(ctx, users, textsOf(owners))
}

// compare adds the losses of texts after a prefix of other texts, and those of neighbours.
func (m *Membership) compare(ctx context.Context, all *ownedTexts, users []membership.UserLoss, losses lossesOf) error {
	if m.PrefixUsers > 0 {
		var prefix [][]int32
		var rest ownedTexts
		for i, owner := range all.owners {
			if users[owner].Aside = owner >= len(m.Members) && owner < len(m.Members)+m.PrefixUsers; users[owner].Aside {
				prefix = append(prefix, all.texts[i])
			} else {
				rest.texts, rest.owners = append(rest.texts, all.texts[i]), append(rest.owners, owner)
			}
		}
		if prefix == nil {
			return fmt.Errorf("the first %d non-members have no text that can be scored; expected one as prefix of the others", m.PrefixUsers)
		}
		found, err := losses(ctx, prefix, rest.texts)
		if err != nil {
			return fmt.Errorf("texts after those of %d non-members: %w", m.PrefixUsers, err)
		}
		for i, x := range found {
			users[rest.owners[i]].Prefixed += x.loss
		}
	}
	if m.NeighbourTexts == 0 {
		return nil
	}
	pool := slices.DeleteFunc(slices.Concat(all.texts...), func(token int32) bool { return token < text.FirstWord })
	var neighbours [][]int32
	streams := map[int]*rand.Rand{}
	for i, text := range all.texts {
		owner := all.owners[i]
		if streams[owner] == nil {
			streams[owner] = seeds.Stream(m.Seed, seeds.MemberNeighbours, uint64(owner))
		}
		neighbours = append(neighbours, membership.Neighbours(streams[owner], text, pool, m.NeighbourTexts)...)
	}
	found, err := losses(ctx, nil, neighbours)
	for i, x := range found {
		users[all.owners[i/m.NeighbourTexts]].Neighbours += x.loss / float64(m.NeighbourTexts)
	}
	return err
}

// date matches a year, with its month if that is a number: 2023, 2023-05-17, 17.05.2023, May 2023.
var date = regexp.MustCompile(`\b((?:19|20)\d\d)\b(?:[-/](0[1-9]|1[0-2])\b)?`)

// datesOf returns words for the dates in a text: years, months of years and, once, the latest year. Each
// begins with a space, so that it differs from all words of the text.
func datesOf(text string) (words []string) {
	latest := ""
	for _, found := range date.FindAllStringSubmatch(text, -1) {
		words = append(words, " "+found[1])
		if found[2] != "" {
			words = append(words, " "+found[1]+"-"+found[2])
		}
		latest = max(latest, found[1])
	}
	if latest != "" {
		words = append(words, " latest "+latest)
	}
	return words
}

// textsOf returns the texts of owners with their words in lower case and their dates.
func textsOf(owners []Owner) []membership.UserText {
	numbers := map[string]int64{}
	texts := make([]membership.UserText, len(owners))
	for i, o := range owners {
		text := strings.Join(o.Texts, "\n")
		var words []int64
		for _, word := range slices.Concat(strings.Fields(strings.ToLower(text)), datesOf(text)) {
			if _, known := numbers[word]; !known {
				numbers[word] = int64(len(numbers))
			}
			words = append(words, numbers[word])
		}
		texts[i] = membership.NewUserText(words, []byte(text))
	}
	return texts
}

// encode cuts a text as a training does. An unknown word becomes one token; a model of bytes keeps characters whole.
func (m *Membership) encode(l *lexicon, content string) ([]int32, error) {
	words := l.words(&Line{Text: content})
	if l.listed && words == nil {
		return nil, fmt.Errorf("%.80q: expected a list of token ids such as [17, 4, 99], because this vocabulary lists tokens", content)
	}
	level := l.vocabulary.Level()
	most := m.sequence(level)
	if level == text.ByteLevel {
		for most < len(content) && most > 0 && !utf8.RuneStart(content[most]) {
			most--
		}
	}
	var tokens []int32
	for _, word := range words[:min(most, len(words))] {
		token, known := l.tokens[word]
		if !known && l.listed {
			return nil, fmt.Errorf("%.80q: the vocabulary has no token %s", content, word)
		}
		if !known {
			token = text.Unknown
		}
		tokens = append(tokens, token)
	}
	return tokens, nil
}

// attack runs the task of the membership audit.
func (m *Membership) attack(ctx context.Context, users []membership.UserLoss, texts []membership.UserText) (*MembershipReport, error) {
	runner := tasks.NewRunner()
	give := func(blob string, list any) (storage.Key, error) {
		data, err := json.Marshal(list)
		h := tasks.NewHasher("given " + blob)
		h.String(storage.DigestOf(data).String())
		given := h.Sum()
		runner.Give(&tasks.RunnerNode{Spec: tasks.Spec{Key: given}, Blobs: map[string][]byte{blob: data}})
		return given, err
	}
	losses, err := give(membership.LossesBlob, users)
	if err != nil {
		return nil, err
	}
	given, err := give(membership.TextsBlob, texts)
	if err != nil {
		return nil, err
	}
	spec, err := tasks.NewSpec(membership.Kind, membership.Params{Shares: 1, Texts: true, Rescoring: membership.Rescoring{PrefixUsers: m.PrefixUsers, NeighbourTexts: m.NeighbourTexts}, Seed: m.Seed},
		tasks.Input{Name: tasks.PartInput(0), Key: losses}, tasks.Input{Name: membership.TextsInput, Key: given})
	if err != nil {
		return nil, err
	}
	node, err := runner.Run(ctx, membership.Kind, spec)
	if err != nil {
		return nil, err
	}
	report := &MembershipReport{By: m.by(), SharedTexts: len(slices.Concat(m.shared()...))}
	return report, json.Unmarshal(node.Blobs[audits.OutcomeBlob], &report.Outcome)
}

// Membership tests membership by the model's losses, over all targets of the texts, including their ends.
func (m *Model) Membership(ctx context.Context, test Membership) (*MembershipReport, error) {
	sequence := test.sequence(m.vocabulary.Level())
	if m.context != 0 && sequence > m.context {
		return nil, fmt.Errorf("texts cut at %d tokens, but the model reads at most %d (its context): expected a smaller --sequence", sequence, m.context)
	}
	scorer, err := m.scorer()
	if err != nil {
		return nil, err
	}
	sentences := func(texts [][]int32) [][]int32 {
		list := make([][]int32, len(texts))
		for i, tokens := range texts {
			list[i] = append([]int32{text.Begin}, tokens...)
			if len(tokens) < sequence {
				list[i] = append(list[i], m.end)
			}
		}
		return list
	}
	return test.judge(ctx, m.texts, func(ctx context.Context, before, texts [][]int32) (losses []textLoss, err error) {
		start := scorer.Start(1)
		if err := scorer.Feed(start, slices.Concat(sentences(before)...)); err != nil {
			return nil, err
		}
		for some := range slices.Chunk(sentences(texts), 192) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if before == nil {
				scores, err := scorer.TokenScores(some)
				if err != nil {
					return nil, err
				}
				for _, text := range scores {
					losses = append(losses, textLoss{loss: membership.LossOf(text).Loss, scores: text})
				}
				continue
			}
			sums, err := scorer.LossesAfter(start, some)
			if err != nil {
				return nil, err
			}
			for _, sum := range sums {
				losses = append(losses, textLoss{loss: sum.Sum})
			}
		}
		return losses, nil
	})
}

// Membership tests membership by the losses of the model behind the endpoint.
func (e *Endpoint) Membership(ctx context.Context, test Membership) (*MembershipReport, error) {
	given := 1 - len(e.vocabulary.begin) // the first token of a prompt has no probability
	return test.judge(ctx, e.vocabulary.lexicon(), lossesBy(e, e.vocabulary, given, e.Batch))
}

// Membership tests membership by the losses of the command's model.
func (c *Command) Membership(ctx context.Context, test Membership) (*MembershipReport, error) {
	return test.judge(ctx, c.vocabulary.lexicon(), lossesBy(c, c.vocabulary, 0, c.Batch))
}

// lossesBy scores texts by a remote model, without their first given tokens and their ends.
func lossesBy(s scorer, v *Vocabulary, given, batch int) lossesOf {
	checked := false
	return func(ctx context.Context, before, texts [][]int32) ([]textLoss, error) {
		prefix := external.Joined(v.tokens, before)
		var list []sequence
		losses := make([]textLoss, len(texts))
		var places []int
		for i, tokens := range texts {
			if len(tokens) > given {
				list, places = append(list, sequence{slices.Concat(prefix, tokens[:given]), tokens[given:]}), append(places, i)
			}
		}
		logProbs, err := s.logProbs(ctx, list, batch)
		costs := sumsOf(logProbs)
		if logProbs == nil && err == nil {
			costs, err = s.costs(ctx, list, batch)
		}
		if err != nil {
			return nil, err
		}
		if len(costs) == 0 {
			return nil, errors.New("the texts are too short: they have no token to score")
		}
		if !checked {
			if _, err := checkTotal(ctx, s, v, list[0].prefix, batch); err != nil {
				return nil, err
			}
			checked = true
		}
		for k, cost := range costs {
			loss := &losses[places[k]]
			loss.targets, loss.loss = int64(len(list[k].suffix)), cost
			if logProbs != nil {
				loss.logProbs = logProbs[k]
			}
		}
		return losses, nil
	}
}
