package expression

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"quantix/internal/healthevent"
)

// unreadable refuses texts that are not UTF-8, and control characters.
func unreadable(text string) *Error {
	line, column := 1, 1
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1, unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r':
			return &Error{line, column, "There is a character here that cannot be shown. Remove it."}
		case r == '\n':
			line, column = line+1, 1
		default:
			column++
		}
	}
	return nil
}

var (
	undeclared  = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	noOverload  = regexp.MustCompile(`^found no matching overload for '([^']*)' applied to '(.*)'$`)
	syntaxError = regexp.MustCompile(`^Syntax error: (mismatched|extraneous|missing|no viable|token recognition)`)
	expected    = regexp.MustCompile(`^expected type '([^']*)' but found '([^']*)'`)
	fieldName   = regexp.MustCompile(`^\s*\.\s*([A-Za-z_][A-Za-z0-9_]*)`)
)

// explain turns the first message of the library into one sentence.
func explain(text string, issues *cel.Issues) *Error {
	all := issues.Errors()
	if len(all) == 0 {
		return &Error{Text: "The expression cannot be read."}
	}
	first := all[0]
	for _, e := range all { // a wrong name also makes the comparison around it wrong
		if undeclared.MatchString(e.Message) {
			first = e
			break
		}
	}
	out := &Error{Line: first.Location.Line(), Column: first.Location.Column() + 1}
	if out.Line < 1 {
		out.Line, out.Column = 0, 0
	}
	out.Text = explainMessage(text, out, first.Message)
	return out
}

func explainMessage(text string, at *Error, message string) string {
	switch {
	case syntaxError.MatchString(message):
		if restAt(text, at) == "" {
			return "The expression ends too early. Complete it, such as event.code == \"xid-79\"."
		}
		return fmt.Sprintf("%s is not expected here. Check quotes, parentheses and operators (==, !=, &&, ||, in).", quoted(firstWord(restAt(text, at))))
	case strings.Contains(message, "recovery"):
		return "The expression cannot be read. Check its quotes, parentheses and operators."
	case strings.Contains(message, "recursion limit") || strings.Contains(message, "recursion depth") || strings.Contains(message, "nesting") && !strings.Contains(message, "comprehension"):
		return fmt.Sprintf("The expression is nested too deeply. At most %d levels are possible.", maxNesting)
	case strings.Contains(message, "node limit") || strings.Contains(message, "node count") || strings.Contains(message, "expression nodes"):
		return "The expression has too many parts. Split it into several policies."
	case strings.Contains(message, "comprehension"):
		return fmt.Sprintf("At most %d loops (all, exists, exists_one, map, filter) can be nested.", maxLoops)
	case strings.Contains(message, "regex program size"):
		return "The regular expression is too large. Use a shorter one with smaller repetition counts."
	case strings.Contains(message, "invalid matches argument"):
		return "The regular expression is not valid. Check its brackets and backslashes."
	}
	if m := expected.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("This must be %s, but it is %s.", plainType(m[1]), plainType(m[2]))
	}
	if m := undeclared.FindStringSubmatch(message); m != nil {
		return explainName(text, at, m[1])
	}
	if m := noOverload.FindStringSubmatch(message); m != nil {
		return explainOverload(m[1], m[2])
	}
	return sentence(message)
}

// explainName says which names there are.
func explainName(text string, at *Error, name string) string {
	if name == "event" || name == "host" {
		rest := restAt(text, at)
		if m := fieldName.FindStringSubmatch(strings.TrimPrefix(rest, name)); m != nil {
			if _, known := fieldOf(name + "." + m[1]); known {
				return fmt.Sprintf("has() takes a key of a map, such as has(event.values.xid). %s.%s is always there.", name, m[1])
			}
			return fmt.Sprintf("%s has no field %q. Fields: %s.", name, m[1], strings.Join(fieldNames(name), ", "))
		}
		return fmt.Sprintf("Name a field of %s: %s.", name, strings.Join(fieldNames(name), ", "))
	}
	if strings.HasPrefix(name, "event.") || strings.HasPrefix(name, "host.") {
		of, field, _ := strings.Cut(name, ".")
		return fmt.Sprintf("%s has no field %q. Fields: %s.", of, field, strings.Join(fieldNames(of), ", "))
	}
	if strings.HasPrefix(restAt(text, at), "(") {
		return fmt.Sprintf("There is no function %s. Functions: contains, startsWith, endsWith, matches, size, all, exists, filter, map, has, int, double, string.", quoted(name))
	}
	return fmt.Sprintf("There is no %s. Use event.… and host.…, and put texts in quotes.", quoted(name))
}

func fieldOf(name string) (Field, bool) {
	for _, f := range fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

func fieldNames(of string) (out []string) {
	for _, f := range fields {
		if name, ok := strings.CutPrefix(f.Name, of+"."); ok {
			out = append(out, name)
		}
	}
	return out
}

// operatorTexts are the operators as people write them, by their names in the library.
var operatorTexts = map[string]string{
	operators.Equals: "==", operators.NotEquals: "!=", operators.Less: "<", operators.LessEquals: "<=", operators.Greater: ">", operators.GreaterEquals: ">=", operators.In: "in",
	operators.LogicalAnd: "&&", operators.LogicalOr: "||", operators.LogicalNot: "!", operators.Add: "+", operators.Subtract: "-", operators.Multiply: "*", operators.Divide: "/", operators.Modulo: "%",
	operators.Negate: "-", operators.Index: "[ ]", operators.Conditional: "? :",
}

func explainOverload(operator, operands string) string {
	word, known := operatorTexts[operator]
	operands = strings.Trim(plainType(operands), "()")
	switch {
	case !known:
		return fmt.Sprintf("%s() does not take (%s).", strings.Trim(operator, "_@"), operands)
	case operator == operators.LogicalAnd || operator == operators.LogicalOr || operator == operators.LogicalNot:
		return fmt.Sprintf("%s connects comparisons, which give true or false. Here it gets %s.", word, operands)
	}
	return fmt.Sprintf("%s does not work on %s.", word, operands)
}

// plainType replaces the library's names of types.
func plainType(t string) string {
	return strings.NewReplacer("string", "text", "double", "number", "uint", "number", "int", "number", "bool", "true or false", "dyn", "any value").Replace(t)
}

// typeText names a type for people.
func typeText(t *cel.Type) string {
	switch t.Kind() {
	case types.StringKind:
		return "a text"
	case types.IntKind, types.DoubleKind, types.UintKind:
		return "a number"
	case types.ListKind:
		return "a list"
	case types.MapKind:
		return "a map"
	case types.DynKind:
		return "any value"
	}
	return "a " + t.String()
}

// sentence makes a message of the library the end of one sentence, in one line.
func sentence(message string) string {
	message, _, _ = strings.Cut(message, "\n")
	message = strings.TrimSuffix(strings.TrimSpace(message), ".")
	const most = 200
	if r := []rune(message); len(r) > most {
		message = string(r[:most]) + "…"
	}
	return message + "."
}

// restAt is the text from a place on.
func restAt(text string, at *Error) string {
	lines := strings.Split(text, "\n")
	if at.Line < 1 || at.Line > len(lines) {
		return ""
	}
	runes := []rune(lines[at.Line-1])
	rest := string(runes[min(max(at.Column-1, 0), len(runes)):])
	return strings.TrimSpace(strings.Join(append([]string{rest}, lines[at.Line:]...), "\n"))
}

func firstWord(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("()[]{},", r) })
	switch {
	case end == 0:
		_, end = utf8.DecodeRuneInString(text)
	case end < 0:
		end = len(text)
	}
	return text[:end]
}

func quoted(text string) string {
	const most = 40
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return "“" + text + "”"
}

// checkValues refuses comparisons of event.values with texts and truth values, which would never hold.
func checkValues(text string, tree *ast.AST) (bad *Error) {
	kindOf := func(e ast.Expr) types.Kind {
		t := tree.GetType(e.ID())
		if t.Kind() == types.ListKind && len(t.Parameters()) == 1 {
			t = t.Parameters()[0]
		}
		return t.Kind()
	}
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if bad != nil || e.Kind() != ast.CallKind || !comparisons[e.AsCall().FunctionName()] || len(e.AsCall().Args()) != 2 {
			return
		}
		args := e.AsCall().Args()
		for i, other := range []ast.Expr{args[1], args[0]} {
			if kind := kindOf(other); isValue(args[i]) && kind != types.DynKind && kind != types.DoubleKind && kind != types.IntKind && kind != types.UintKind {
				at := tree.SourceInfo().GetStartLocation(args[i].ID())
				bad = &Error{at.Line(), at.Column() + 1, "event.values has numbers. Compare it with a number, such as 79, without quotes."}
				return
			}
		}
	}))
	return bad
}

// isValue reports whether the expression is an entry of event.values.
func isValue(e ast.Expr) bool {
	is := func(of ast.Expr) bool {
		return of.Kind() == ast.IdentKind && of.AsIdent() == "event.values" ||
			of.Kind() == ast.SelectKind && of.AsSelect().FieldName() == "values" && of.AsSelect().Operand().Kind() == ast.IdentKind && of.AsSelect().Operand().AsIdent() == "event"
	}
	switch e.Kind() {
	case ast.SelectKind:
		return !e.AsSelect().IsTestOnly() && is(e.AsSelect().Operand())
	case ast.CallKind:
		return e.AsCall().FunctionName() == operators.Index && is(e.AsCall().Args()[0])
	}
	return false
}

// sizes bounds the sizes of fields for the estimate of steps: see the bounds of package healthevent.
type sizes struct{}

// regexCost bounds the steps of matching a text of the length, whose worst case takes maxRegex instructions a byte.
func regexCost(length uint64) uint64 { return 500 + 5*length }

const matches = "matches"

// EstimateCallCost returns the steps of regular expressions, which the library takes for cheaper than they are. It leaves
// other calls to the library.
func (s sizes) EstimateCallCost(function, _ string, target *cost.AstNode, args []cost.AstNode) *cost.CallEstimate {
	if function != matches {
		return nil
	}
	var of cost.AstNode
	switch {
	case target != nil:
		of = *target
	case len(args) > 0:
		of = args[0]
	default:
		return nil
	}
	size := of.ComputedSize()
	if size == nil {
		size = s.EstimateSize(of)
	}
	most := uint64(5000)
	if size != nil {
		most = min(size.Max, 1<<20)
	}
	return &cost.CallEstimate{CostEstimate: cost.Estimate{Min: 1, Max: regexCost(most)}}
}

// CallCost counts the steps of regular expressions during an evaluation.
func (sizes) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	if function != matches || len(args) == 0 {
		return nil
	}
	text, _ := args[0].Value().(string)
	n := regexCost(uint64(len(text)))
	return &n
}

// EstimateSize returns the largest size of a value.
func (sizes) EstimateSize(e cost.AstNode) *cost.SizeEstimate {
	word := &cost.SizeEstimate{Max: healthevent.MaxName}
	path := strings.Join(e.Path(), ".")
	switch e.Type().Kind() {
	case types.StringKind, types.BytesKind:
		if path == "event.text" {
			return &cost.SizeEstimate{Max: healthevent.MaxText}
		}
		return word
	case types.MapKind, types.ListKind:
		if strings.HasPrefix(path, "event.") {
			return &cost.SizeEstimate{Max: healthevent.MaxValues, Key: word, Elem: word}
		}
		return &cost.SizeEstimate{Max: 64, Key: word, Elem: word}
	}
	return nil
}

var missingKey = regexp.MustCompile(`no such key: (.*)`)

// explain turns an error of an evaluation into one sentence.
func (e *Expression) explain(err error) Result {
	text := err.Error()
	if m := missingKey.FindStringSubmatch(text); m != nil {
		return Result{Missing: true, Reason: e.explainMissing(m[1])}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || strings.Contains(text, "interrupted"):
		return Result{Reason: "The evaluation took too long and was stopped."}
	case strings.Contains(text, "cost limit exceeded"):
		return Result{Reason: "The evaluation took too many steps and was stopped."}
	case strings.Contains(text, "memory limit exceeded"):
		return Result{Reason: "The evaluation needed too much memory and was stopped."}
	case strings.Contains(text, "regex program size"):
		return Result{Reason: "The regular expression is too large."}
	case strings.Contains(text, "division by zero") || strings.Contains(text, "modulus by zero"):
		return Result{Reason: "The evaluation divides by zero."}
	}
	return Result{Reason: "The evaluation failed: " + sentence(text)}
}

// explainMissing says that a map lacks a key, and how to ask for it first.
func (e *Expression) explainMissing(key string) string {
	for _, of := range []string{"event.values", "event.attributes", "host.labels"} {
		if strings.Contains(e.text, of+"."+key) || strings.Contains(e.text, of+"["+strconv.Quote(key)+"]") || strings.Contains(e.text, of+"['"+key+"']") {
			return fmt.Sprintf("%s has no %q here, so the expression does not match. Ask for it first: %q in %s && …", of, key, key, of)
		}
	}
	return fmt.Sprintf("There is no entry %q here, so the expression does not match. Ask for it first: %q in … && …", key, key)
}
