package expression_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/internal/healthpolicy"
	"quantix/internal/healthpolicy/expression"
)

// largeEvent is an event whose texts and maps have the largest sizes.
func largeEvent() healthevent.Event {
	e := healthevent.Event{Check: "gpu", Kind: healthevent.Occurred, Repeats: 3, Finding: healthevent.Finding{
		Object: "gpu/0000:41:00.0", Code: "xid-79", Severity: fleet.AlarmCritical, Text: strings.Repeat("aé", 166), Values: map[string]float64{"xid": 79}, Attributes: map[string]string{"model": "H200"},
	}}
	for i := range healthevent.MaxValues - 1 {
		e.Values[fmt.Sprint("v", i)], e.Attributes[fmt.Sprint("a", i)] = float64(i), strings.Repeat("a", healthevent.MaxName)
	}
	return e
}

var aHost = expression.HostOf("h1", "default", fleet.HostSpec{Schedulable: false, Roles: fleet.HostRoles{Compute: true}, Taints: []fleet.Taint{{Key: "gpu", Effect: fleet.NoSchedule}}}, map[string]string{"rack": "4"})

func TestExpressionsSeeEventAndHost(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`event.code == "xid-79"`:                                                     true,
		`event.values.xid == 79 && event.values["xid"] in [48, 79]`:                  true,
		`event.check == "gpu" && event.kind == "occurred"`:                           true,
		`event.object.startsWith("gpu/") && event.severity == "critical"`:            true,
		`event.repeats >= 3 && event.values.xid > 78.5`:                              true,
		`event.attributes.model.matches("^H[12]00$")`:                                true,
		`has(event.values.temperature) && event.values.temperature > 90`:             false,
		`"rack" in host.labels && host.labels.rack == "4"`:                           true,
		`host.cordoned && host.name == "h1" && host.cluster == "default"`:            true,
		`host.taints.exists(t, t.startsWith("gpu"))`:                                 true,
		`"compute" in host.roles && !("storage" in host.roles)`:                      true,
		`event.text == "Ünï 💥"`:                                                      false,
		`event.values.exists(name, name.startsWith("v") && event.values[name] > 10)`: true,
	} {
		e, err := expression.Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := e.Evaluate(t.Context(), largeEvent(), &aHost); got.Matches != want || got.Reason != "" {
			t.Errorf("%s gives %+v", text, got)
		}
	}
}

func TestWrongExpressionsRefusedWithPlaceAndSentence(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                    "Enter an expression",
		`event.chek == "gpu"`: `Line 1, column 6: event has no field "chek". Fields: check, object`,
		"host.name == \"a\" &&\n  host.rack == \"4\"": `Line 2, column 7: host has no field "rack".`,
		`event`:                             "Name a field of event",
		`event.code == xid-79`:              "There is no “xid”. Use event.… and host.…, and put texts in quotes.",
		`event.code = "x"`:                  "Line 1, column 12: “=” is not expected here.",
		`event.code ==`:                     "The expression ends too early.",
		`event.code`:                        "The expression gives a text. It must give true or false",
		`1 + 2`:                             "The expression gives a number.",
		`event.code == 3`:                   "== does not work on text, number.",
		`event.code && true`:                "This must be true or false, but it is text.",
		`event.values.xid == "79"`:          "event.values has numbers.",
		`event.values["xid"] in ["79"]`:     "event.values has numbers.",
		`has(event.check)`:                  "event.check is always there",
		`event.code.foo()`:                  "There is no function “foo”.",
		`event.code.matches("a(b")`:         "The regular expression is not valid.",
		`event.text.matches("(a{90}){90}")`: "The regular expression",
		"event.text == \"\x00\"":            "cannot be shown",
		"event.text == \"\xff\"":            "cannot be shown",
		strings.Repeat("x", 4097):           "An expression has at most 4,096 bytes. This one has 4,097.",
		strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300): "nested too deeply",
		strings.Repeat("[", 2000):                                    "nested too deeply",
		strings.Repeat("a.", 2000):                                   "nested too deeply",
		`event.attributes.all(a, event.attributes.all(b, event.attributes.all(c, a != b)))`: "At most 2 loops",
		`event.attributes.all(a, event.attributes.all(b, event.text.contains(event.text)))`: "too many steps",
		strings.Repeat(`event.text.matches("(a?){12}b") || `, 100) + "false":                "too many steps",
	} {
		_, err := expression.Compile(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q gives %v, want %q", text, err, want)
		}
	}
}

func TestMissingValueDoesNotMatchAndIsExplained(t *testing.T) {
	t.Parallel()
	e, err := expression.Compile(`event.values["uncorrected"] > 0`)
	if err != nil {
		t.Fatal(err)
	}
	got := e.Evaluate(t.Context(), largeEvent(), &aHost)
	if got.Matches || !got.Missing || got.Reason != `event.values has no "uncorrected" here, so the expression does not match. Ask for it first: "uncorrected" in event.values && …` {
		t.Errorf("%+v", got)
	}
}

// heavy are expressions that pass the estimate and take long for the largest event.
var heavy = []string{
	strings.Repeat(`event.text.matches("(a?){12}b") || `, 19) + "false",
	`event.attributes.exists(a, event.attributes[a].matches("(a?){12}b"))`,
	`event.attributes.exists(a, event.attributes.exists(b, a + b == "x"))`,
	`event.values.map(a, event.values.map(b, [a, b])).size() < 0`,
	`[1,2,3,4,5,6,7,8].map(x, event.text + event.text + event.text + event.text).size() < 0`,
	`dyn(event.text).matches(event.text)`,
	strings.Repeat("!", 2000) + "true",
}

func TestStoppedEvaluationHasReason(t *testing.T) {
	t.Parallel()
	e, err := expression.Compile(`event.values.all(a, event.values.all(b, event.values[a] >= event.values[b] || true))`)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := e.Evaluate(ended, largeEvent(), &aHost); got.Matches || !strings.Contains(got.Reason, "was stopped") {
		t.Errorf("after its end, the evaluation gives %+v", got)
	}
}

func TestNoExpressionPanics(t *testing.T) {
	t.Parallel()
	words := []string{"event", "host", ".", "code", "values", "attributes", "xid", "\"a\"", "'", "==", "in", "&&", "||", "!", "(", ")", "[", "]", "{", "}", "79", "0", "-", "/", "%", "?", ":", "all", "exists", "map", "(a,", "has(", "matches", "size(", "true", "null", "dyn(", "type(", ",", "b\"x\"", "1u", "timestamp(", "duration(", "\n", "é", "int("}
	event := largeEvent()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 40).Draw(t, "words"), rapid.SampledFrom([]string{"", " "}).Draw(t, "gap"))
		if rapid.Bool().Draw(t, "any text") {
			text += rapid.String().Draw(t, "text")
		}
		e, err := expression.Compile(text)
		if err != nil {
			if s := err.Error(); !strings.HasSuffix(s, ".") || strings.Contains(s, "\n") {
				t.Fatalf("%q is refused with %q, which is no sentence", text, s)
			}
			return
		}
		e.Evaluate(context.Background(), event, &aHost)
	})
}

func TestDefaultPoliciesCompile(t *testing.T) {
	t.Parallel()
	for _, p := range healthpolicy.Defaults() {
		if _, err := expression.Compile(p.Spec.Expression); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

// BenchmarkDefaults evaluates all default policies for one event.
func BenchmarkDefaults(b *testing.B) {
	var all []*expression.Expression
	for _, p := range healthpolicy.Defaults() {
		e, err := expression.Compile(p.Spec.Expression)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, e)
	}
	event := healthevent.Event{Check: "gpu", Kind: healthevent.Occurred, Finding: healthevent.Finding{Object: "gpu/0", Code: "xid-79", Severity: fleet.AlarmCritical, Values: map[string]float64{"xid": 79}}}
	b.ReportAllocs()
	for b.Loop() {
		for _, e := range all {
			e.Evaluate(context.Background(), event, &aHost)
		}
	}
}

// BenchmarkHeavy evaluates the expressions that take longest. The evaluation of one policy is to take at most 10 ms.
func BenchmarkHeavy(b *testing.B) {
	event := largeEvent()
	for i, text := range heavy {
		e, err := expression.Compile(text)
		if err != nil {
			continue // refused
		}
		b.Run(strconv.Itoa(i), func(b *testing.B) {
			for b.Loop() {
				e.Evaluate(b.Context(), event, &aHost)
			}
			b.ReportMetric(10, "limit-ms/op")
		})
	}
}
