package fleet_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/fleet"
)

func newMatch(parts ...string) fleet.FilterMatch { return fleet.FilterMatch{Pattern: parts} }

func labelMatch(key string, parts ...string) fleet.FilterMatch {
	return fleet.FilterMatch{Label: key, Pattern: parts}
}

func TestParseFilterParsesTerms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]fleet.FilterTerm{
		"":                       {},
		"  \t ":                  {},
		"web":                    {{Key: "name", Alternatives: []fleet.FilterMatch{newMatch("", "web", "")}}},
		"-web":                   {{Key: "name", Not: true, Alternatives: []fleet.FilterMatch{newMatch("", "web", "")}}},
		"-":                      {{Key: "name", Alternatives: []fleet.FilterMatch{newMatch("", "-", "")}}},
		"we*b":                   {{Key: "name", Alternatives: []fleet.FilterMatch{newMatch("", "we", "b", "")}}},
		`"two words"`:            {{Key: "name", Alternatives: []fleet.FilterMatch{newMatch("", "two words", "")}}},
		`"a:b"`:                  {{Key: "name", Alternatives: []fleet.FilterMatch{newMatch("", "a:b", "")}}},
		"name:web*":              {{Key: "name", Alternatives: []fleet.FilterMatch{newMatch("web", "")}}},
		`name:"web*"`:            {{Key: "name", Alternatives: []fleet.FilterMatch{newMatch("web*")}}},
		"NAME:web":               {{Key: "name", Alternatives: []fleet.FilterMatch{newMatch("web")}}},
		`"*****************"`:    {{Key: "name", Alternatives: []fleet.FilterMatch{newMatch("", "*****************", "")}}},
		"name:a,b*":              {{Key: "name", Alternatives: []fleet.FilterMatch{newMatch("a"), newMatch("b", "")}}},
		"state:running":          {{Key: "state", Alternatives: []fleet.FilterMatch{newMatch("running")}}},
		"-state:Running,stopped": {{Key: "state", Not: true, Alternatives: []fleet.FilterMatch{newMatch("running"), newMatch("stopped")}}},
		"state:st*ing":           {{Key: "state", Alternatives: []fleet.FilterMatch{newMatch("starting"), newMatch("stopping")}}},
		"label:env":              {{Key: "label", Alternatives: []fleet.FilterMatch{labelMatch("env", "", "")}}},
		"label:env=prod":         {{Key: "label", Alternatives: []fleet.FilterMatch{labelMatch("env", "prod")}}},
		"label:env=":             {{Key: "label", Alternatives: []fleet.FilterMatch{labelMatch("env", "")}}},
		"label:env=prod,test":    {{Key: "label", Alternatives: []fleet.FilterMatch{labelMatch("env", "prod"), labelMatch("env", "test")}}},
		"label:env,tier":         {{Key: "label", Alternatives: []fleet.FilterMatch{labelMatch("env", "", ""), labelMatch("tier", "", "")}}},
		"label:env=p*":           {{Key: "label", Alternatives: []fleet.FilterMatch{labelMatch("env", "p", "")}}},
		`label:note="a, b=c"`:    {{Key: "label", Alternatives: []fleet.FilterMatch{labelMatch("note", "a, b=c")}}},
		"mac:52:54:00:00:00:01":  {{Key: "mac", Alternatives: []fleet.FilterMatch{newMatch("52:54:00:00:00:01")}}},
		"vcpu>4":                 {{Key: "vcpu", Comparisons: []fleet.Comparison{{">", 4}}}},
		"vcpus:4,8":              {{Key: "vcpu", Comparisons: []fleet.Comparison{{"=", 4}, {"=", 8}}}},
		"-cpu>=50%":              {{Key: "cpu", Not: true, Comparisons: []fleet.Comparison{{">=", 50}}}},
		"memory<=1.5G":           {{Key: "memory", Comparisons: []fleet.Comparison{{"<=", 1.5 * (1 << 30)}}}},
		"memory:512MiB":          {{Key: "memory", Comparisons: []fleet.Comparison{{"=", 512 << 20}}}},
		"created<1970-01-02":     {{Key: "created", Comparisons: []fleet.Comparison{{"<", 86400}}}},
		"vcpu=2":                 {{Key: "vcpu", Comparisons: []fleet.Comparison{{"=", 2}}}},
		"-State=running,stopped": {{Key: "state", Not: true, Alternatives: []fleet.FilterMatch{newMatch("running"), newMatch("stopped")}}},
		"label=env=prod":         {{Key: "label", Alternatives: []fleet.FilterMatch{labelMatch("env", "prod")}}},
		"env=prod":               {{Key: "name", Alternatives: []fleet.FilterMatch{newMatch("", "env=prod", "")}}},
		`"vcpu=2"`:               {{Key: "name", Alternatives: []fleet.FilterMatch{newMatch("", "vcpu=2", "")}}},
		"phase:running":          {{Key: "state", Alternatives: []fleet.FilterMatch{newMatch("running")}}},
		`name:"a>b"`:             {{Key: "name", Alternatives: []fleet.FilterMatch{newMatch("a>b")}}},
		"host:h1 web": {
			{Key: "host", Alternatives: []fleet.FilterMatch{newMatch("h1")}}, {Key: "name", Alternatives: []fleet.FilterMatch{newMatch("", "web", "")}},
		},
	} {
		got, err := fleet.ParseFilter(fleet.VMKeys, text)
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
		"colour:red":                           `no filter key "colour". Keys here: state, attention, drift, host`,
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
		_, err := fleet.ParseFilter(fleet.VMKeys, text)
		refusal, ok := errors.AsType[*fleet.Error](err)
		if !ok || refusal.Code != fleet.Invalid || len(refusal.Fields) != 1 || refusal.Fields[0].Field != "filter" || !strings.Contains(refusal.Message, says) {
			t.Errorf("%q: %v, want an error of field filter with %q", text, err, says)
		}
	}
}

func TestPatternMatchesAndConvertsToLike(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern fleet.Pattern
		like    string
		fits    []string
		fitsNot []string
	}{
		{fleet.Pattern{"web"}, "web", []string{"web"}, []string{"", "web1", "aweb"}},
		{fleet.Pattern{"web", ""}, "web%", []string{"web", "web-1"}, []string{"we", "aweb"}},
		{fleet.Pattern{"", "eb", ""}, "%eb%", []string{"eb", "web1"}, []string{"e-b"}},
		{fleet.Pattern{"a", "b", "c"}, "a%b%c", []string{"abc", "axbxbxc"}, []string{"ac", "abcd"}},
		{fleet.Pattern{"50%_", `\`}, `50\%\_%\\`, []string{`50%_\`, `50%_x\`}, []string{`50xx\`}},
		{fleet.Pattern{"ab", "b"}, "ab%b", []string{"abb"}, []string{"ab"}},
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
