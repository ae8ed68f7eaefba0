// Package expression compiles and evaluates the expressions of health policies, which are written in CEL, the Common
// Expression Language. It is pure. Every evaluation is bounded in steps, memory and time.
package expression

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/operators"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

// Bounds of expressions and their evaluation.
const (
	MaxLength = 4096 // bytes of an expression

	maxNesting = 40     // levels of parentheses and calls
	maxNodes   = 4000   // parts of an expression, with those of expanded macros
	maxLoops   = 2      // nested all, exists, exists_one, map and filter
	maxRegex   = 100    // instructions of a compiled regular expression
	maxCost    = 60_000 // steps of one evaluation
	maxMemory  = 50_000 // elements and bytes that one evaluation holds

	// maxTime is the time limit of the evaluations for one report or trial. The limit of steps ends a single evaluation
	// much earlier.
	maxTime = 2 * time.Second
)

// WithTimeLimit returns the context for all evaluations of one report or trial.
func WithTimeLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, maxTime)
}

// Host is what an expression sees of the event's host.
type Host struct {
	Name, Cluster string
	Labels        map[string]string
	Taints        []string // "gpu-failed:NoExecute"
	Cordoned      bool
	Roles         []string // "compute", "storage", "controlPlane"
}

// HostOf returns what an expression sees of a host with the spec. labels are those of the portal and of agent.yaml.
func HostOf(name, cluster string, spec fleet.HostSpec, labels map[string]string) Host {
	h := Host{Name: name, Cluster: cluster, Labels: labels, Cordoned: !spec.Schedulable, Taints: []string{}, Roles: []string{}}
	if h.Labels == nil {
		h.Labels = map[string]string{}
	}
	for _, t := range spec.Taints {
		h.Taints = append(h.Taints, t.Text())
	}
	for _, r := range []struct {
		has  bool
		name string
	}{{spec.Roles.Compute, "compute"}, {spec.Roles.Storage, "storage"}, {spec.Roles.ControlPlane, "controlPlane"}} {
		if r.has {
			h.Roles = append(h.Roles, r.name)
		}
	}
	return h
}

// Field describes a field that an expression can use.
type Field struct {
	Name, Type, Help string
	variable         *cel.Type
}

// Fields lists the fields of events and hosts.
func Fields() []Field { return fields }

var (
	texts  = cel.MapType(cel.StringType, cel.StringType)
	fields = []Field{
		{"event.check", "text", "Name of the check: gpu, smart, edac …", cel.StringType},
		{"event.object", "text", "Object on the host: gpu/0000:41:00.0, disk/sda; empty: the host", cel.StringType},
		{"event.code", "text", "Kind of the finding: xid-79, smart-failing", cel.StringType},
		{"event.kind", "text", "raised, changed or occurred", cel.StringType},
		{"event.severity", "text", "critical, warning or info: the proposal of the check", cel.StringType},
		{"event.text", "text", "The sentence of the event", cel.StringType},
		{"event.repeats", "number", "How often it happened within a few seconds", cel.IntType},
		{"event.values", "map of numbers", "Numbers of the check, such as event.values.xid", cel.MapType(cel.StringType, cel.DynType)},
		{"event.attributes", "map of texts", "Texts of the check, such as event.attributes.model", texts},
		{"host.name", "text", "Name of the host", cel.StringType},
		{"host.cluster", "text", "Name of the host's cluster", cel.StringType},
		{"host.labels", "map of texts", "Labels of the host, such as host.labels.rack", texts},
		{"host.taints", "list of texts", "Taints of the host, such as gpu-failed:NoExecute", cel.ListType(cel.StringType)},
		{"host.cordoned", "true or false", "Whether the host is cordoned", cel.BoolType},
		{"host.roles", "list of texts", "Roles of the host: compute, storage, controlPlane", cel.ListType(cel.StringType)},
	}
)

// environment returns the declarations of expressions. Building it takes some milliseconds.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.StdLib(),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserRecursionLimit(maxNesting), cel.ParserErrorRecoveryLimit(4), cel.ParserExpressionSizeLimit(MaxLength), cel.ExpressionNodeLimit(maxNodes),
		cel.RegexProgramSizeLimit(maxRegex),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateComprehensionNestingLimit(maxLoops)),
	}
	for _, f := range fields {
		options = append(options, cel.Variable(f.Name, f.variable))
	}
	return cel.NewCustomEnv(options...)
})

// Expression is a compiled expression. It is safe for concurrent use.
type Expression struct {
	text    string
	program cel.Program
}

// Error is why an expression is refused.
type Error struct {
	Line, Column int // from 1; 0: the expression as a whole
	Text         string
}

// Error returns the sentence with its place.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Text
	}
	return fmt.Sprintf("Line %d, column %d: %s", e.Line, e.Column, e.Text)
}

// Compile checks and compiles an expression. The error is an *Error.
func Compile(text string) (out *Expression, err error) {
	defer func() {
		if recover() != nil { // in the library; an expression must not end the portal
			out, err = nil, &Error{Text: "The expression cannot be read. Simplify it."}
		}
	}()
	switch {
	case strings.TrimSpace(text) == "":
		return nil, &Error{Text: "Enter an expression, such as event.code == \"xid-79\"."}
	case len(text) > MaxLength:
		return nil, &Error{Text: fmt.Sprintf("An expression has at most %s bytes. This one has %s.", fleet.FormatCount(MaxLength), fleet.FormatCount(int64(len(text))))}
	}
	if bad := unreadable(text); bad != nil {
		return nil, bad
	}
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("environment of expressions: %w", err)
	}
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, explain(text, issues)
	}
	if checked.OutputType() != cel.BoolType {
		return nil, &Error{Text: fmt.Sprintf("The expression gives %s. It must give true or false: compare it with something.", typeText(checked.OutputType()))}
	}
	if bad := checkValues(text, checked.NativeRep()); bad != nil {
		return nil, bad
	}
	estimate, err := env.EstimateCost(checked, sizes{})
	if err != nil || estimate.Max > maxCost {
		return nil, &Error{Text: "The expression could take too many steps. Use fewer nested loops (all, exists, map, filter) and fewer regular expressions."}
	}
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost), cel.CostTracking(sizes{}), cel.MemoryLimit(maxMemory), cel.InterruptCheckFrequency(50))
	if err != nil {
		return nil, &Error{Text: "The expression cannot be evaluated: " + sentence(err.Error())}
	}
	return &Expression{text, program}, nil
}

// Result is what one evaluation gives.
type Result struct {
	Matches bool
	// Reason is why the expression could not be evaluated; it does not match then. Missing: the event lacks a value that the
	// expression reads, which is no fault of the policy.
	Reason  string
	Missing bool
}

// Evaluate evaluates the expression for an event of a host. It never panics, and stops soon after ctx has ended: see
// WithTimeLimit.
func (e *Expression) Evaluate(ctx context.Context, event healthevent.Event, host *Host) (r Result) {
	defer func() {
		if recover() != nil {
			r = Result{Reason: "The evaluation failed inside the expression language. Simplify the expression."}
		}
	}()
	value, _, err := e.program.ContextEval(ctx, &input{event: &event, host: host})
	if err != nil {
		return e.explain(err)
	}
	matches, ok := value.Value().(bool)
	if !ok {
		return Result{Reason: "The expression gave neither true nor false."}
	}
	return Result{Matches: matches}
}

// input gives an expression the fields of an event and its host.
type input struct {
	event *healthevent.Event
	host  *Host
}

// Parent returns nil: there are no other names.
func (*input) Parent() cel.Activation { return nil }

// ResolveName returns the field with the name.
func (in *input) ResolveName(name string) (any, bool) {
	e, h := in.event, in.host
	switch name {
	case "event.check":
		return e.Check, true
	case "event.object":
		return e.Object, true
	case "event.code":
		return e.Code, true
	case "event.kind":
		return string(e.Kind), true
	case "event.severity":
		return string(e.Severity), true
	case "event.text":
		return e.Text, true
	case "event.repeats":
		return e.Repeats, true
	case "event.values":
		return emptyIfNil(e.Values), true
	case "event.attributes":
		return emptyIfNil(e.Attributes), true
	case "host.name":
		return h.Name, true
	case "host.cluster":
		return h.Cluster, true
	case "host.labels":
		return emptyIfNil(h.Labels), true
	case "host.taints":
		return h.Taints, true
	case "host.cordoned":
		return h.Cordoned, true
	case "host.roles":
		return h.Roles, true
	}
	return nil, false
}

func emptyIfNil[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// comparisons are the operators whose operands checkValues looks at.
var comparisons = map[string]bool{
	operators.Equals: true, operators.NotEquals: true, operators.Less: true, operators.LessEquals: true, operators.Greater: true, operators.GreaterEquals: true, operators.In: true,
}
