package filter_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/filter"
	"quantix/internal/fleet"
)

func newMatch(parts ...string) filter.Match { return filter.Match{Pattern: parts} }

func labelMatch(key string, parts ...string) filter.Match {
	return filter.Match{Label: key, Pattern: parts}
}

func TestParseFilterParsesTerms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]filter.Term{
		"":                       {},
		"  \t ":                  {},
		"web":                    {{Key: "name", Alternatives: []filter.Match{newMatch("", "web", "")}}},
		"-web":                   {{Key: "name", Not: true, Alternatives: []filter.Match{newMatch("", "web", "")}}},
		"-":                      {{Key: "name", Alternatives: []filter.Match{newMatch("", "-", "")}}},
		"we*b":                   {{Key: "name", Alternatives: []filter.Match{newMatch("", "we", "b", "")}}},
		`"two words"`:            {{Key: "name", Alternatives: []filter.Match{newMatch("", "two words", "")}}},
		`"a:b"`:                  {{Key: "name", Alternatives: []filter.Match{newMatch("", "a:b", "")}}},
		"name:web*":              {{Key: "name", Alternatives: []filter.Match{newMatch("web", "")}}},
		`name:"web*"`:            {{Key: "name", Alternatives: []filter.Match{newMatch("web*")}}},
		"NAME:web":               {{Key: "name", Alternatives: []filter.Match{newMatch("web")}}},
		`"*****************"`:    {{Key: "name", Alternatives: []filter.Match{newMatch("", "*****************", "")}}},
		"name:a,b*":              {{Key: "name", Alternatives: []filter.Match{newMatch("a"), newMatch("b", "")}}},
		"state:running":          {{Key: "state", Alternatives: []filter.Match{newMatch("running")}}},
		"-state:Running,stopped": {{Key: "state", Not: true, Alternatives: []filter.Match{newMatch("running"), newMatch("stopped")}}},
		"state:st*ing":           {{Key: "state", Alternatives: []filter.Match{newMatch("starting"), newMatch("stopping")}}},
		"label:env":              {{Key: "label", Alternatives: []filter.Match{labelMatch("env", "", "")}}},
		"label:env=prod":         {{Key: "label", Alternatives: []filter.Match{labelMatch("env", "prod")}}},
		"label:env=":             {{Key: "label", Alternatives: []filter.Match{labelMatch("env", "")}}},
		"label:env=prod,test":    {{Key: "label", Alternatives: []filter.Match{labelMatch("env", "prod"), labelMatch("env", "test")}}},
		"label:env,tier":         {{Key: "label", Alternatives: []filter.Match{labelMatch("env", "", ""), labelMatch("tier", "", "")}}},
		"label:env=p*":           {{Key: "label", Alternatives: []filter.Match{labelMatch("env", "p", "")}}},
		`label:note="a, b=c"`:    {{Key: "label", Alternatives: []filter.Match{labelMatch("note", "a, b=c")}}},
		"mac:52:54:00:00:00:01":  {{Key: "mac", Alternatives: []filter.Match{newMatch("52:54:00:00:00:01")}}},
		"vcpu>4":                 {{Key: "vcpu", Comparisons: []filter.Comparison{{">", 4}}}},
		"vcpus:4,8":              {{Key: "vcpu", Comparisons: []filter.Comparison{{"=", 4}, {"=", 8}}}},
		"-cpu>=50%":              {{Key: "cpu", Not: true, Comparisons: []filter.Comparison{{">=", 50}}}},
		"memory<=1.5G":           {{Key: "memory", Comparisons: []filter.Comparison{{"<=", 1.5 * (1 << 30)}}}},
		"memory:512MiB":          {{Key: "memory", Comparisons: []filter.Comparison{{"=", 512 << 20}}}},
		"created<1970-01-02":     {{Key: "created", Comparisons: []filter.Comparison{{"<", 86400}}}},
		"vcpu=2":                 {{Key: "vcpu", Comparisons: []filter.Comparison{{"=", 2}}}},
		"-State=running,stopped": {{Key: "state", Not: true, Alternatives: []filter.Match{newMatch("running"), newMatch("stopped")}}},
		"label=env=prod":         {{Key: "label", Alternatives: []filter.Match{labelMatch("env", "prod")}}},
		"env=prod":               {{Key: "name", Alternatives: []filter.Match{newMatch("", "env=prod", "")}}},
		`"vcpu=2"`:               {{Key: "name", Alternatives: []filter.Match{newMatch("", "vcpu=2", "")}}},
		"phase:running":          {{Key: "state", Alternatives: []filter.Match{newMatch("running")}}},
		`name:"a>b"`:             {{Key: "name", Alternatives: []filter.Match{newMatch("a>b")}}},
		"host:h1 web": {
			{Key: "host", Alternatives: []filter.Match{newMatch("h1")}}, {Key: "name", Alternatives: []filter.Match{newMatch("", "web", "")}},
		},
	} {
		got, err := filter.Parse(fleet.VMKeys, text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
	}
}

func TestInvalidFilterErrorNamesProblem(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"a*b*c*d*e*":                           "at most 12 asterisks, and a value 4",
		"name:a*b*,c*d*e*f*g*":                 "at most 12 asterisks, and a value 4",
		strings.Repeat("a*b*c* ", 5):           "at most 12 asterisks, and a value 4",
		"colour:red":                           `no filter key "colour". Keys here: state, attention, drift, managed, adopted, host`,
		":red":                                 `no filter key ""`,
		"state:":                               "a value is missing",
		"state:running,":                       "a value is missing",
		"state:runnin":                         "Values: creating, starting, running",
		"state:ab*":                            "matches nothing",
		"vcpu>four":                            "vcpu:four is not a number. Write vcpu>4",
		"vcpu>":                                "is not a number",
		"vcpu>NaN":                             "is not a number",
		"vcpu>0x10":                            "is not a number",
		"memory>4X":                            "is not a size. Write memory>4G",
		"memory>4GX":                           "is not a size",
		"created>yesterday":                    "is not a day. Write created>2026-01-31",
		"name>web":                             `the values of "name" are texts`,
		`name:"web`:                            "not closed",
		"label:=prod":                          "label's key is missing",
		"web\x00":                              "one line",
		"web\nphase:running":                   "one line",
		"\xff":                                 "one line",
		strings.Repeat("a", 1001):              "1000 bytes",
		strings.Repeat("a ", 21):               "at most 20 words",
		"id:" + strings.Repeat("a,", 60) + "b": "more than 50",
	} {
		_, err := filter.Parse(fleet.VMKeys, text)
		refusal, ok := errors.AsType[*fleet.Error](err)
		if !ok || refusal.Code != fleet.Invalid || len(refusal.Fields) != 1 || refusal.Fields[0].Field != "filter" || !strings.Contains(refusal.Message, says) {
			t.Errorf("%q: %v, want an error of field filter with %q", text, err, says)
		}
	}
}

func TestPatternMatchesAndConvertsToLike(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern filter.Pattern
		like    string
		fits    []string
		fitsNot []string
	}{
		{filter.Pattern{"web"}, "web", []string{"web"}, []string{"", "web1", "aweb"}},
		{filter.Pattern{"web", ""}, "web%", []string{"web", "web-1"}, []string{"we", "aweb"}},
		{filter.Pattern{"", "eb", ""}, "%eb%", []string{"eb", "web1"}, []string{"e-b"}},
		{filter.Pattern{"a", "b", "c"}, "a%b%c", []string{"abc", "axbxbxc"}, []string{"ac", "abcd"}},
		{filter.Pattern{"50%_", `\`}, `50\%\_%\\`, []string{`50%_\`, `50%_x\`}, []string{`50xx\`}},
		{filter.Pattern{"ab", "b"}, "ab%b", []string{"abb"}, []string{"ab"}},
	} {
		if got := c.pattern.LikePattern(); got != c.like {
			t.Errorf("%q: LIKE %q, want %q", c.pattern, got, c.like)
		}
		for _, text := range c.fits {
			if !c.pattern.Matches(text) {
				t.Errorf("%q does not match %q", c.pattern, text)
			}
		}
		for _, text := range c.fitsNot {
			if c.pattern.Matches(text) {
				t.Errorf("%q matches %q", c.pattern, text)
			}
		}
	}
}
