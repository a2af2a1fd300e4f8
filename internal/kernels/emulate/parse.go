package emulate

import (
	"fmt"
	"strconv"
	"strings"
)

// Program is parsed assembly.
type Program struct {
	functions map[string]*function
	symbols   map[string]*constants
	constants []*constants
}

// function is the body of a TEXT directive.
type function struct {
	code   []instruction
	labels map[string]int // index into code
}

type instruction struct {
	line int
	op   string
	args []operand
}

type operandKind int

const (
	immediate operandKind = iota
	general               // general-purpose register
	vector                // vector register of some width
	opmask
	memory
	parameter // in the frame of the caller
	label
)

type operand struct {
	kind  operandKind
	value uint64 // of an immediate, sign-extended
	index int    // register number; of memory: base, or -1
	lanes int    // 32-bit lanes of a vector register

	scaled, scale int    // of memory: index register, or -1, and its factor
	displacement  int    // of memory and parameters
	symbol        string // of memory in constants, or a label
}

// Parse reads the assembly of a file.
func Parse(text string) (*Program, error) {
	p := &Program{functions: map[string]*function{}, symbols: map[string]*constants{}}
	var current *function
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "//")
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := p.parseLine(i+1, line, &current); err != nil {
			return nil, fmt.Errorf("line %d: %q: %w", i+1, line, err)
		}
	}
	return p, nil
}

func (p *Program) parseLine(number int, line string, current **function) error {
	op, rest, _ := strings.Cut(line, " ")
	switch {
	case op == "TEXT":
		*current = &function{labels: map[string]int{}}
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(rest), "·"), "(SB)")
		p.functions[name] = *current
		return nil
	case op == "DATA":
		return p.parseData(rest)
	case op == "GLOBL":
		return nil
	case *current == nil:
		return fmt.Errorf("outside of a function")
	case strings.HasSuffix(line, ":"):
		(*current).labels[strings.TrimSuffix(line, ":")] = len((*current).code)
		return nil
	}
	args, err := parseOperands(rest)
	if err != nil {
		return err
	}
	(*current).code = append((*current).code, instruction{line: number, op: op, args: args})
	return nil
}

// parseData reads "name<>+offset(SB)/8, $value".
func (p *Program) parseData(rest string) error {
	target, value, ok := strings.Cut(rest, ",")
	place, size, sized := strings.Cut(target, "/")
	if !ok || !sized || size != "8" {
		return fmt.Errorf("data of 8 bytes wanted")
	}
	at, err := parseOperand(strings.TrimSpace(place))
	if err != nil {
		return err
	}
	bits, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(value), "$"), 0, 64)
	if err != nil {
		return err
	}
	c := p.symbols[at.symbol]
	if c == nil {
		c = &constants{address: constantsBase + uint64(len(p.constants))*constantsRoom}
		p.symbols[at.symbol] = c
		p.constants = append(p.constants, c)
	}
	if at.displacement != 4*len(c.words) {
		return fmt.Errorf("data out of order")
	}
	c.words = append(c.words, uint32(bits), uint32(bits>>32))
	return nil
}

func parseOperands(text string) ([]operand, error) {
	var args []operand
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		o, err := parseOperand(part)
		if err != nil {
			return nil, err
		}
		args = append(args, o)
	}
	return args, nil
}

func parseOperand(text string) (operand, error) {
	if value, ok := strings.CutPrefix(text, "$"); ok {
		n, err := strconv.ParseInt(value, 0, 64)
		return operand{kind: immediate, value: uint64(n)}, err
	}
	if o, ok := parseRegister(text); ok {
		return o, nil
	}
	if strings.HasSuffix(text, ")") {
		return parseMemory(text)
	}
	return operand{kind: label, symbol: text}, nil
}

var generalNames = []string{"AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI"}

// vectorLanes maps the letter of a register to its number of lanes.
var vectorLanes = map[byte]int{'X': 4, 'Y': 8, 'Z': 16}

func parseRegister(text string) (operand, bool) {
	for i, name := range generalNames {
		if text == name || text == name[:1]+"L" && i < 4 {
			return operand{kind: general, index: i}, true
		}
	}
	if len(text) < 2 {
		return operand{}, false
	}
	number, err := strconv.Atoi(strings.TrimSuffix(text[1:], "B"))
	if err != nil {
		return operand{}, false
	}
	switch text[0] {
	case 'R':
		return operand{kind: general, index: number}, true
	case 'K':
		return operand{kind: opmask, index: number}, true
	case 'X', 'Y', 'Z':
		return operand{kind: vector, index: number, lanes: vectorLanes[text[0]]}, true
	}
	return operand{}, false
}

// parseMemory reads symbol+4(SB), name+8(FP) and 4(AX)(BX*8).
func parseMemory(text string) (operand, error) {
	head, parts, _ := strings.Cut(strings.TrimSuffix(text, ")"), "(")
	o := operand{kind: memory, index: -1, scaled: -1}
	symbol, displacement, named := strings.Cut(head, "+")
	if !named {
		symbol, displacement = "", head
	}
	if displacement != "" {
		n, err := strconv.Atoi(displacement)
		if err != nil {
			return o, err
		}
		o.displacement = n
	}
	o.symbol = strings.TrimSuffix(symbol, "<>")
	switch base, scaled, indexed := strings.Cut(parts, ")("); {
	case parts == "SB":
		return o, nil
	case parts == "FP":
		o.kind = parameter
		return o, nil
	case indexed:
		name, scale, _ := strings.Cut(scaled, "*")
		index, ok := parseRegister(name)
		factor, err := strconv.Atoi(scale)
		if !ok || err != nil {
			return o, fmt.Errorf("index %q", scaled)
		}
		o.scaled, o.scale = index.index, factor
		parts = base
		fallthrough
	default:
		register, ok := parseRegister(parts)
		if !ok {
			return o, fmt.Errorf("base %q", parts)
		}
		o.index = register.index
		return o, nil
	}
}
