package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/tasks/audits"
	"coalmine/workflows/standalone/modelaudit"
)

const auditHelp = `Audit a finished model for memorized canaries or members. The model is a file of coalmine
export, a folder of Hugging Face's layout, an HTTP endpoint, or a command that scores
texts. --canaries is a text file with one canary per line, its words separated by spaces;
empty lines and lines that begin with # are ignored. For a model of bytes (data.level:
byte) a canary is the line without outer spaces, and --alphabet, --symbols and --format
describe its random part. For a model of words --symbols and --format do, as in a run;
without them any word may follow the prefix. Every line counts as a canary of the
training data. --controls is such a file of lines of the same kind that the training data did
not contain: fluent text outranks random sequences without being memorized, and controls show
that.

Random sampling ranks each canary among random sequences with the same first words; rank 1
is memorized. Beam search looks for the canary after its first words. --skew-normal fits a
distribution to the log-perplexities of random sequences, for exposures beyond the ranks.
These are the audits of a run.

Folder: config.json, tokenizer.json and model.safetensors (or its parts) of a GPT-2, GPT-NeoX
(Pythia) or Llama model. Neither Python nor a GPU is needed. The folder's tokenizer cuts a
canary as if a space stood before it, and other texts as they stand; --prefix and --sequence
count tokens, and words of --format and --symbols are single tokens.

Endpoint: a URL of the OpenAI completions API with echo and logprobs. Prompts are token ids,
so --vocabulary is required: a model file of coalmine export, or a JSON list of the texts of
all tokens in the order of their ids, null for special ones; with a list, a canary is a JSON
list of ids: [5299, 1353, 338]. COALMINE_ENDPOINT_KEY holds the endpoint's key. References
are scored one by one, so --references is 20000 by default; there is no beam search. A
server may compute differently in a batch: the audit scores some sequences alone too, and
gives ranks as intervals by the largest difference.

Command (--command, instead of MODEL): a program that speaks the contract "score"
(docs/contracts/score.md) on standard input and output; "coalmine contract check score"
checks it. A canary is its line, with --alphabet, --symbols and --format as for a model of
bytes; or words, with --vocabulary (a model file of coalmine export, or a JSON list of
words). References are scored as for an endpoint. The audit also reports greedy extraction,
and the number of samples that contain the canary with probability 1/2. The command gets the
usual environment variables and those of --command-env; it and its child processes are
killed when the audit ends or they exceed --command-memory.

--members and --nonmembers, with or without --canaries, run the membership audit: does the
mean loss of users' texts distinguish users of the training data from others? A file has one
object {"user": "17", "text": "..."} or one text per line; a text without a user is an owner
of its own. Texts are read and cut as in a training, after --sequence words or bytes. Min-K%
needs the log-probability of each token (an endpoint, a command with token_logprobs, or a
model file), Min-K%++ and curvature the probabilities of all next tokens (a model file).
--prefix-users scores each text again after those of the first non-members, which this attack
leaves out; --neighbour-texts scores copies with other words. RUN CELL instead of MODEL is the
last model of a cell.

If no program can query the model, its scores suffice: --canaries is then a file of "coalmine
canaries export", and --scores has the model's log-probability of each of its lines. Canaries
are ranked among the references or, if these have no scores, among the held-back canaries.
Coins give a lower bound on epsilon, with --initial-scores, the scores of the untrained
model, or with --plain-loss, which must be chosen before the training
(docs/contracts/canaries.md).`

// endpointKey is the environment variable that holds the key of an endpoint.
const endpointKey = "COALMINE_ENDPOINT_KEY"

// auditFlags holds the flags of the command.
type auditFlags struct {
	canaries, controls string
	modelaudit.Options

	// These apply to an endpoint; most also apply to a command.
	model, vocabulary         string
	begin, batch, concurrency int

	scorer commandFlags
	scored scoresFlags
	belong membershipFlags
}

// Flags that do not apply to a model file, by the kinds of model that they apply to.
var (
	ofEndpoint = []string{"model", "begin"}
	ofCommand  = []string{"command-memory", "command-env"}
	ofBoth     = []string{"vocabulary", "batch", "concurrency", "timeout"}
)

// endpointReferences is the default for an endpoint, which scores every reference in full. It is
// the smallest part of the references from which a rank may be estimated.
const endpointReferences = 20_000

func newAuditCommand(g *global) *cobra.Command {
	var flags auditFlags
	c := &cobra.Command{
		Use:   "audit MODEL|FOLDER|URL|RUN CELL",
		Short: "Audit a finished model, an endpoint or a command for canaries or members",
		Long:  auditHelp,
		Example: "  coalmine export quickstart c01 -o model.safetensors\n  coalmine audit model.safetensors --canaries canaries.txt --references 200000\n" +
			"  coalmine audit pythia-160m --canaries canaries.txt --format \"my dish is # with #\" --references 20000\n" +
			"  coalmine audit http://localhost:8000/v1/completions --model quickstart --vocabulary model.safetensors --canaries canaries.txt\n" +
			"  coalmine audit --command \"python3 scorer.py\" --canaries canaries.txt --format \"my pin is ####\" --alphabet digits --references 5000\n" +
			"  coalmine audit --canaries canaries/canaries.jsonl --scores scores.jsonl --initial-scores initial.jsonl\n" +
			"  coalmine audit model.safetensors --members trained.jsonl --nonmembers others.jsonl\n" +
			"  coalmine audit quickstart c01 --members trained.jsonl --nonmembers others.jsonl",
		Args: func(c *cobra.Command, args []string) error {
			if flags.scorer.line != "" || flags.scored.scores != "" {
				return cobra.NoArgs(c, args)
			}
			return cobra.RangeArgs(1, 2)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if (flags.belong.members == "") != (flags.belong.nonMembers == "") || flags.canaries == "" && flags.belong.members == "" {
				return errors.New("audit: expected --canaries FILE, or --members FILE and --nonmembers FILE, or all three; see coalmine audit --help")
			}
			if flags.scored.scores != "" && flags.controls != "" {
				return errors.New("--controls with --scores: the file of coalmine canaries export already marks held-back canaries; remove it")
			}
			if flags.scored.scores != "" {
				return flags.auditScores(c, g)
			}
			if err := flags.checkAsked(c); err != nil {
				return err
			}
			report, err := flags.audit(c, g, args)
			if err != nil {
				return err
			}
			return g.show(report, func() error { return g.writeAudit(report) })
		},
	}
	flags.add(c.Flags())
	return c
}

func (a *auditFlags) add(f *pflag.FlagSet) {
	f.StringVar(&a.canaries, "canaries", "", "text file with one canary per line; with --scores a file of coalmine canaries export")
	f.StringVar(&a.controls, "controls", "", "text file of canaries that the model was not trained on, for comparison")
	f.IntVar(&a.References, "references", 2_000_000, "random sequences to rank a canary among; the default (endpoint: 20000) is lowered to the number of possible sequences; 0: no random sampling")
	f.IntVar(&a.Prefix, "prefix", 0, "number of given words of a canary, at least 1 (default: the words before the first # of --format, else 1)")
	f.IntVar(&a.BeamWidth, "beam-width", 5, "width of beam search; 0: no beam search, as for an endpoint or a command")
	f.IntVar(&a.SkewNormal, "skew-normal", 0, "random sequences to fit a skew-normal distribution to, such as 10000, for exposures beyond the references; 0: no fit")
	f.Uint64Var(&a.Seed, "seed", 1, "seed of the random sequences")
	f.BoolVar(&a.Exact, "exact", false, "compute large ranks exactly instead of estimating them")
	f.StringVar((*string)(&a.Alphabet), "alphabet", "", "model of bytes: alphabet of the random sequences: digits, lower (the default), letters or printable")
	f.StringVar(&a.Symbols, "symbols", "", `symbols of the random sequences instead of --alphabet: characters such as "0123456789abcdef"; model of words: words such as "red green blue"`)
	f.StringVar(&a.Format, "format", "", `format of the canaries, in which each # is a random symbol or word: "my number is ####"; model of words: "my dish is # with #"`)
	f.StringVar(&a.model, "model", "", "endpoint: name of the model")
	f.StringVar(&a.vocabulary, "vocabulary", "", "endpoint: a model file of coalmine export, or a JSON list of the texts of all tokens; command: such a file, or a JSON list of words")
	f.IntVar(&a.begin, "begin", -1, "endpoint: id of the token before every sequence (default: the export's; none with a list)")
	f.IntVar(&a.batch, "batch", 32, "endpoint, command: number of sequences per request")
	f.IntVar(&a.concurrency, "concurrency", 4, "endpoint, command: number of concurrent requests")
	f.DurationVar(&a.scorer.timeout, "timeout", modelaudit.CompletionsTimeout, "endpoint, command: timeout of a request and of a command's start")
	a.scorer.add(f, `command line of a program in the contract "score", instead of MODEL: "python3 scorer.py"`, "command: ")
	a.scored.add(f)
	a.belong.add(f)
}

func (a *auditFlags) audit(c *cobra.Command, g *global, args []string) (*modelaudit.Report, error) {
	if err := checkPrefix(c); err != nil {
		return nil, err
	}
	asked, err := a.asked()
	if err != nil {
		return nil, err
	}
	switch {
	case a.scorer.line != "":
		if err := useless(c, "the model of a command", ofEndpoint); err != nil {
			return nil, err
		}
		return a.auditCommand(c, g, asked)
	case strings.HasPrefix(args[0], "http://") || strings.HasPrefix(args[0], "https://"):
		if err := useless(c, args[0]+", an endpoint,", ofCommand); err != nil {
			return nil, err
		}
		return a.auditEndpoint(c, g, args[0], asked)
	}
	if err := useless(c, args[0]+", a file,", slices.Concat(ofEndpoint, ofCommand, ofBoth)); err != nil {
		return nil, err
	}
	read, err := openCell(c.Context(), g, args)
	if err != nil {
		return nil, err
	}
	options := a.Options
	options.FitReferences = !c.Flags().Changed("references")
	return asked.audit(c.Context(), read, options)
}

// checkPrefix rejects an explicit --prefix 0, because 0 stands for an absent flag and its default.
func checkPrefix(c *cobra.Command) error {
	if n, err := c.Flags().GetInt("prefix"); err != nil || n != 0 || !c.Flags().Changed("prefix") {
		return err
	}
	return errors.New("--prefix 0: expected at least 1, because random sequences begin like the canary; remove the flag for the default")
}

// useless rejects flags that do not apply to this kind of model.
func useless(c *cobra.Command, model string, flags []string) error {
	for _, name := range flags {
		if c.Flags().Changed(name) {
			return fmt.Errorf("--%s applies to another kind of model (%s), not to %s; remove it", name, c.Flags().Lookup(name).Usage, model)
		}
	}
	return nil
}

func (a *auditFlags) auditEndpoint(c *cobra.Command, g *global, address string, asked *askedOf) (*modelaudit.Report, error) {
	if a.model == "" || a.vocabulary == "" {
		return nil, errors.New("an endpoint needs --model, the server's name of the model, and --vocabulary, which gives the tokens of canaries and references")
	}
	if err := a.checkPace(); err != nil {
		return nil, err
	}
	vocabulary, err := readFlag("vocabulary", a.vocabulary, "", func(_ string, r io.Reader) (*modelaudit.Vocabulary, error) {
		return modelaudit.ReadVocabulary(r, a.begin)
	})
	if err != nil {
		return nil, err
	}
	client := &modelaudit.CompletionsClient{URL: address, Model: a.model, Key: strings.TrimSpace(os.Getenv(endpointKey)), Concurrency: a.concurrency, Timeout: a.scorer.timeout}
	e, err := modelaudit.NewEndpoint(client, vocabulary, a.batch)
	if err != nil {
		return nil, err
	}
	e.Ranked = g.noteRanked(client.Requests)
	return asked.audit(c.Context(), e, a.remoteOptions(c))
}

func (a *auditFlags) checkPace() error {
	if a.concurrency < 1 || a.scorer.timeout <= 0 {
		return fmt.Errorf("--concurrency %d and --timeout %v: expected more than 0", a.concurrency, a.scorer.timeout)
	}
	return nil
}

// remoteOptions returns the options for a model that scores every reference in full.
func (a *auditFlags) remoteOptions(c *cobra.Command) modelaudit.Options {
	options := a.Options
	if options.FitReferences = !c.Flags().Changed("references"); options.FitReferences {
		options.References = endpointReferences
	}
	if !c.Flags().Changed("beam-width") {
		options.BeamWidth = 0
	}
	return options
}

func (g *global) noteRanked(requests func() int64) func(done, total int) {
	return func(done, total int) {
		g.note("%d of %d canaries ranked, %s", done, total, readable.Count(requests(), "request"))
	}
}

// opened reads a file; its errors name the file.
func opened[T any](path string, read func(io.Reader) (T, error)) (T, error) {
	var none T
	file, err := os.Open(path)
	if err != nil {
		return none, err
	}
	v, err := read(file)
	if err := errors.Join(err, file.Close()); err != nil {
		if strings.HasPrefix(err.Error(), path) {
			return none, err
		}
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// readFlag reads the file that a flag names; its errors name both, and end in advice if the file is missing.
func readFlag[T any](flag, path, advice string, read func(path string, r io.Reader) (T, error)) (T, error) {
	v, err := opened(path, func(r io.Reader) (T, error) { return read(path, r) })
	if advice != "" && errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; %s", err, advice)
	}
	if err != nil {
		err = fmt.Errorf("--%s: %w", flag, err)
	}
	return v, err
}

// auditColumn is a column of the table of canaries.
type auditColumn struct {
	name string
	text func(c *modelaudit.Canary) string
}

// fluent explains ranks of 1 without controls.
const fluent = "A rank shows memorization only for canaries drawn like the references: fluent text outranks random sequences without being memorized. --controls FILE compares with lines that the model was not trained on."

// writeAudit prints a line for each canary, and the counts.
func (g *global) writeAudit(r *modelaudit.Report) error {
	defer g.writeMembership(r.Membership)
	if len(r.Canaries) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(g.stdout, 0, 0, 2, ' ', 0)
	columns := []auditColumn{{"canary", func(c *modelaudit.Canary) string { return c.Text }}, {"rank", rankText}, {"exposure", exposureText}}
	if r.Controls != nil {
		columns = slices.Insert(columns, 1, auditColumn{"control", controlText})
	}
	if r.SkewNormal != nil {
		columns = append(columns, auditColumn{"fitted", fittedText})
	}
	if r.Command != nil {
		columns = append(columns, auditColumn{"greedy", func(c *modelaudit.Canary) string { return foundText(c.Greedy) }}, auditColumn{"samples for a 50% chance", samplesText})
	} else {
		columns = append(columns, auditColumn{"beam search", func(c *modelaudit.Canary) string { return foundText(c.Found) }})
	}
	line := func(text func(auditColumn) string) {
		fmt.Fprintln(table, strings.Join(lists.Map(columns, text), "\t"))
	}
	line(func(column auditColumn) string { return column.name })
	for i := range r.Canaries {
		line(func(column auditColumn) string { return column.text(&r.Canaries[i]) })
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if v := r.RandomSampling; v != nil {
		g.printf("random sampling: %d of %d memorized%s, among %d references\n", v.Memorized, v.Of, betweenText(v), v.References)
		if v.Memorized > 0 && r.Controls == nil {
			g.printf("%s\n", fluent)
		}
	}
	if v := r.Controls; v != nil {
		g.printf("controls: mean exposure %.2f bits of %s, %.2f of the canaries; %s (Mann and Whitney's test, two-sided)\n",
			v.MeanControls, readable.Count(v.Controls, "control"), v.MeanCanaries, audits.PText(v.P))
	}
	if v := r.SkewNormal; v != nil {
		g.printf("%s\n", v.Note(nil))
	}
	if v := r.BeamSearch; v != nil {
		g.printf("beam search: %d of %d found, width %d\n", v.Memorized, v.Of, v.Width)
	}
	if e := r.Endpoint; e != nil {
		g.printf("endpoint: %d sequences in %d requests; alone and in a batch, the log-perplexities of %d differ by at most %.3g nats\n",
			e.Sequences, e.Requests, e.Compared, e.LargestDifference)
		g.writeBegin(e)
	}
	g.writeCommanded(r)
	return nil
}

// writeBegin warns about sequences that begin inside a text.
func (g *global) writeBegin(e *modelaudit.Served) {
	if !e.NoBegin {
		return
	}
	g.printf("canaries have no begin token: for the model, canaries and references begin in the middle of a text. If the model's texts begin with a token, ranks are wrong without --begin ID")
	for i, token := range e.Begins {
		g.printf("%s%d (%s)", [2]string{"; the list has ", ", "}[min(i, 1)], token.ID, readable.Text(token.Text))
	}
	g.printf("\n")
}

// betweenText returns the range of the number of memorized canaries by the intervals of their
// ranks, or "" if the number is certain.
func betweenText(v *modelaudit.Memorized) string {
	if v.MemorizedLow == nil || *v.MemorizedLow == *v.MemorizedHigh {
		return ""
	}
	return fmt.Sprintf(" (%d to %d)", *v.MemorizedLow, *v.MemorizedHigh)
}

// rankText returns a rank with its interval, if it is uncertain.
func rankText(c *modelaudit.Canary) string {
	if c.Rank == nil {
		return "-"
	}
	text := fmt.Sprint(*c.Rank)
	if !*c.RankExact {
		text = "about " + text
	}
	if c.RankLow != nil && *c.RankLow < *c.RankHigh {
		text += fmt.Sprintf(" (%d to %d)", *c.RankLow, *c.RankHigh)
	}
	return text
}

func controlText(c *modelaudit.Canary) string {
	if c.Control {
		return "yes"
	}
	return "-"
}

// exposureText marks a lower bound, and adds the error of an estimate.
func exposureText(c *modelaudit.Canary) string {
	switch {
	case c.Ranked.Exposure == nil:
		return "-"
	case *c.Ranked.ExposureCensored:
		return fmt.Sprintf(">= %.1f", *c.Ranked.Exposure)
	case c.Ranked.ExposureSE != nil:
		return fmt.Sprintf("%.1f +- %.1f", *c.Ranked.Exposure, *c.Ranked.ExposureSE)
	}
	return fmt.Sprintf("%.1f", max(0, *c.Ranked.Exposure)) // slightly negative if the rank is behind all references
}

// fittedText returns a fitted exposure with its error.
func fittedText(c *modelaudit.Canary) string {
	if c.Fitted.Exposure == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f +- %.1f", *c.Fitted.Exposure, *c.Fitted.ExposureSE)
}

func foundText(found *bool) string {
	switch {
	case found == nil:
		return "-"
	case *found:
		return "found"
	}
	return "not found"
}
