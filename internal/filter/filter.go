// Package filter parses the filter language of lists.
package filter

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"quantix/internal/fleet"
)

// Bounds of a filter.
const (
	maxFilter       = 1000 // bytes
	maxTerms        = 20
	maxAlternatives = 50 // per term
	maxAsterisks    = 4  // per pattern: each asterisk multiplies the cost of a match by the text's length
	maxAllAsterisks = 12
)

// Term is one condition of a filter. All terms must match; within a term, any alternative.
type Term struct {
	Key          string // never an alias
	Not          bool
	Alternatives []Match
	Comparisons  []Comparison // alternatives of a key with a unit
}

// Match is one alternative of a term.
type Match struct {
	Label string // only for the key "label": the label's key; Pattern then matches its value
	Pattern
}

// Pattern is text with "*" for any run of characters, stored as the literal parts between the asterisks.
type Pattern []string

// ExactText returns the text of a pattern; ok is false if it has asterisks.
func (p Pattern) ExactText() (string, bool) { return p[0], len(p) == 1 }

// LikePattern returns the pattern for SQL LIKE, with backslash as the escape character.
func (p Pattern) LikePattern() string {
	escaped := make([]string, len(p))
	for i, part := range p {
		escaped[i] = likeEscapes.Replace(part)
	}
	return strings.Join(escaped, "%")
}

var likeEscapes = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// Matches reports whether the pattern matches the complete text.
func (p Pattern) Matches(text string) bool {
	rest, ok := strings.CutPrefix(text, p[0])
	if !ok || len(p) == 1 {
		return ok && rest == ""
	}
	for _, part := range p[1 : len(p)-1] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, p[len(p)-1])
}

// Lower returns the pattern in lower case.
func (p Pattern) Lower() Pattern {
	out := make(Pattern, len(p))
	for i, part := range p {
		out[i] = strings.ToLower(part)
	}
	return out
}

// Parse parses the filter language. Terms are AND-ed: key:value, -key:value for negation, key:a,b for alternatives,
// label:key=value, label:key. Numbers are compared with key>4, key>=4, key<4, key<=4 and key:4. After a key, "=" means
// ":". A bare word matches a part of the name. "*" matches any run of characters; quotes protect spaces, colons,
// commas, < and >. Errors are Invalid at the field "filter".
func Parse(keys fleet.FilterKeys, text string) ([]Term, error) {
	if len(text) > maxFilter || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' }) {
		return nil, invalid("A filter is one line of at most %d bytes.", maxFilter)
	}
	words, err := splitWords(text)
	if err != nil {
		return nil, err
	}
	if len(words) > maxTerms {
		return nil, invalid("A filter has at most %d words.", maxTerms)
	}
	if err := checkAsterisks(words); err != nil {
		return nil, err
	}
	terms := make([]Term, 0, len(words))
	for _, w := range words {
		t, err := parseTerm(keys, w)
		if err != nil {
			return nil, err
		}
		terms = append(terms, t)
	}
	return terms, nil
}

// checkAsterisks limits the number of asterisks, and so the cost of matching.
func checkAsterisks(words []fleet.QuotedText) error {
	all := 0
	for _, w := range words {
		one := 0
		for i, r := range w.Text {
			switch {
			case r == ',' && w.Plain[i]:
				one = 0
			case r == '*' && w.Plain[i]:
				one++
				all++
			}
			if one > maxAsterisks || all > maxAllAsterisks {
				return invalid("A filter has at most %d asterisks, and a value %d. Remove some of them.", maxAllAsterisks, maxAsterisks)
			}
		}
	}
	return nil
}

// invalid returns an Invalid error at the field "filter".
func invalid(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	return &fleet.Error{Code: fleet.Invalid, Message: text, Fields: []fleet.FieldError{{Field: "filter", Message: text}}}
}

// patternOf returns the pattern that the text with asterisks means.
func patternOf(w fleet.QuotedText) Pattern {
	p := Pattern{}
	for rest, more := w, true; more; {
		var part fleet.QuotedText
		part, rest, more = rest.CutAtUnquoted('*')
		p = append(p, part.String())
	}
	return p
}

func splitWords(text string) ([]fleet.QuotedText, error) {
	var words []fleet.QuotedText
	var w fleet.QuotedText
	open, begun := false, false
	end := func() {
		if begun {
			words = append(words, w)
		}
		w, begun = fleet.QuotedText{}, false
	}
	for _, r := range text {
		switch {
		case r == '"':
			open, begun = !open, true
		case !open && (r == ' ' || r == '\t'):
			end()
		default:
			w = w.With(r, !open)
			begun = true
		}
	}
	if open {
		return nil, invalid("A quotation mark is not closed. Write \"…\" around the text.")
	}
	end()
	return words, nil
}

func parseTerm(keys fleet.FilterKeys, w fleet.QuotedText) (Term, error) {
	var t Term
	term := w.String()
	if len(w.Text) > 1 && w.Text[0] == '-' && w.Plain[0] {
		t.Not, w = true, w.From(1)
	}
	key, operator, value := cutAtOperator(keys, w)
	if operator == "" {
		p := patternOf(w)
		p = append(append(Pattern{""}, p...), "")
		t.Key, t.Alternatives = "name", []Match{{Pattern: p}}
		return t, nil
	}
	k, found := keys.Find(key.String())
	if !found {
		return t, invalid("There is no filter key %q. Keys here: %s. Put text with a colon, < or > in quotes.", key.String(), keyNames(keys))
	}
	t.Key = k.Key
	if k.Unit != fleet.UnitNone {
		return t, t.parseComparisons(k, operator, value)
	}
	if operator != ":" {
		return t, invalid("%q cannot be compared: the values of %q are texts. Write %s:value.", term, k.Key, k.Key)
	}
	for more := true; more; {
		var alternative fleet.QuotedText
		alternative, value, more = value.CutAtUnquoted(',')
		if len(alternative.Text) == 0 {
			return t, invalid("In %q a value is missing. Write %s:value, or %s:one,two.", term, t.Key, t.Key)
		}
		t.Alternatives = append(t.Alternatives, Match{Pattern: patternOf(alternative)})
		if t.Key == "label" {
			if err := t.parseLabel(alternative); err != nil {
				return t, err
			}
		}
	}
	if len(t.Alternatives) > maxAlternatives {
		return t, invalid("%s: has more than %d values.", t.Key, maxAlternatives)
	}
	return t, t.expandValues(k)
}

// cutAtOperator splits at the first unquoted colon or comparison operator; without one, operator is empty. An equals
// sign after a known key counts as a colon. Anywhere else it is text, because names may contain it.
func cutAtOperator(keys fleet.FilterKeys, w fleet.QuotedText) (key fleet.QuotedText, operator string, value fleet.QuotedText) {
	for i, r := range w.Text {
		if !w.Plain[i] || !strings.ContainsRune(":<>=", r) {
			continue
		}
		before, op, end := w.Until(i), string(r), i+1
		switch _, known := keys.Find(before.String()); {
		case r == '=' && !known:
			continue
		case r == '=':
			op = ":"
		case r != ':' && end < len(w.Text) && w.Plain[end] && w.Text[end] == '=':
			op, end = op+"=", end+1
		}
		return before, op, w.From(end)
	}
	return w, "", fleet.QuotedText{}
}

// parseLabel parses the newest alternative of a label term: key=value, a further value for the previous key, or a key
// alone.
func (t *Term) parseLabel(w fleet.QuotedText) error {
	m := &t.Alternatives[len(t.Alternatives)-1]
	key, value, found := w.CutAtUnquoted('=')
	switch {
	case found && len(key.Text) == 0:
		return invalid("In %q the label's key is missing. Write label:key=value.", "label:"+w.String())
	case found:
		m.Label, m.Pattern = key.String(), patternOf(value)
	case len(t.Alternatives) > 1 && !t.Alternatives[len(t.Alternatives)-2].matchesAll():
		m.Label = t.Alternatives[len(t.Alternatives)-2].Label
	default:
		m.Label, m.Pattern = w.String(), Pattern{"", ""}
	}
	return nil
}

func (p Pattern) matchesAll() bool { return len(p) == 2 && p[0] == "" && p[1] == "" }

// expandValues replaces patterns by the matching values, for keys with a fixed set of values.
func (t *Term) expandValues(k fleet.FilterKey) error {
	if k.Values == nil {
		return nil
	}
	var chosen []Match
	for _, m := range t.Alternatives {
		found := false
		for _, v := range k.Values {
			if m.Lower().Matches(strings.ToLower(v)) {
				chosen, found = append(chosen, Match{Pattern: Pattern{v}}), true
			}
		}
		if !found {
			return invalid("%s:%s matches nothing. Values: %s.", k.Key, strings.Join(m.Pattern, "*"), strings.Join(k.Values, ", "))
		}
	}
	t.Alternatives = chosen
	return nil
}

func keyNames(keys fleet.FilterKeys) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Key
	}
	return strings.Join(names, ", ")
}
