package fleet

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of a filter.
const (
	maxFilter       = 1000 // bytes
	maxTerms        = 20
	maxAlternatives = 50 // per term
	maxAsterisks    = 4  // per pattern: each asterisk multiplies the cost of a match by the text's length
	maxAllAsterisks = 12
)

// FilterKey is a key before the colon of a filter term.
type FilterKey struct {
	Key     string     // the word in the column's heading
	Aliases []string   // other words for the key
	Help    string     // text for completion: "the VM's state"
	Values  []string   // all possible values; nil: any text
	Unit    FilterUnit // of numbers, which can be compared with > and <
}

// FilterKeys are the filter keys of one resource type.
type FilterKeys []FilterKey

// FilterTerm is one condition of a filter. All terms must match; within a term, any alternative.
type FilterTerm struct {
	Key          string // never an alias
	Not          bool
	Alternatives []FilterMatch
	Comparisons  []Comparison // alternatives of a key with a unit
}

// FilterMatch is one alternative of a term.
type FilterMatch struct {
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

// ParseFilter parses the filter language. Terms are AND-ed: key:value, -key:value for negation, key:a,b for
// alternatives, label:key=value, label:key. Numbers are compared with key>4, key>=4, key<4, key<=4 and key:4. After a
// key, "=" means ":". A bare word matches a part of the name. "*" matches any run of characters; quotes protect spaces, colons, commas, < and >.
// Errors are Invalid at the field "filter".
func ParseFilter(keys FilterKeys, text string) ([]FilterTerm, error) {
	if len(text) > maxFilter || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' }) {
		return nil, filterError("A filter is one line of at most %d bytes.", maxFilter)
	}
	words, err := splitWords(text)
	if err != nil {
		return nil, err
	}
	if len(words) > maxTerms {
		return nil, filterError("A filter has at most %d words.", maxTerms)
	}
	if err := checkAsterisks(words); err != nil {
		return nil, err
	}
	terms := make([]FilterTerm, 0, len(words))
	for _, w := range words {
		t, err := keys.parseTerm(w)
		if err != nil {
			return nil, err
		}
		terms = append(terms, t)
	}
	return terms, nil
}

// checkAsterisks limits the number of asterisks, and so the cost of matching.
func checkAsterisks(words []filterWord) error {
	all := 0
	for _, w := range words {
		one := 0
		for i, r := range w.text {
			switch {
			case r == ',' && w.plain[i]:
				one = 0
			case r == '*' && w.plain[i]:
				one++
				all++
			}
			if one > maxAsterisks || all > maxAllAsterisks {
				return filterError("A filter has at most %d asterisks, and a value %d. Remove some of them.", maxAllAsterisks, maxAsterisks)
			}
		}
	}
	return nil
}

func filterError(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	return &Error{Code: Invalid, Message: text, Fields: []FieldError{{Field: "filter", Message: text}}}
}

// filterWord is a word of a filter. For each character, it records whether the character was outside quotes.
type filterWord struct {
	text  []rune
	plain []bool // outside quotes, where "*", ":", "," and "-" are operators
}

func (w filterWord) String() string { return string(w.text) }

// cutAtUnquoted splits at the first unquoted sep.
func (w filterWord) cutAtUnquoted(sep rune) (before, after filterWord, found bool) {
	for i, r := range w.text {
		if r == sep && w.plain[i] {
			return filterWord{w.text[:i], w.plain[:i]}, filterWord{w.text[i+1:], w.plain[i+1:]}, true
		}
	}
	return w, filterWord{}, false
}

func (w filterWord) pattern() Pattern {
	p := Pattern{}
	for rest, more := w, true; more; {
		var part filterWord
		part, rest, more = rest.cutAtUnquoted('*')
		p = append(p, part.String())
	}
	return p
}

func splitWords(text string) ([]filterWord, error) {
	var words []filterWord
	var w filterWord
	open, begun := false, false
	end := func() {
		if begun {
			words = append(words, w)
		}
		w, begun = filterWord{}, false
	}
	for _, r := range text {
		switch {
		case r == '"':
			open, begun = !open, true
		case !open && (r == ' ' || r == '\t'):
			end()
		default:
			w.text, w.plain, begun = append(w.text, r), append(w.plain, !open), true
		}
	}
	if open {
		return nil, filterError("A quotation mark is not closed. Write \"…\" around the text.")
	}
	end()
	return words, nil
}

func (keys FilterKeys) parseTerm(w filterWord) (FilterTerm, error) {
	var t FilterTerm
	term := w.String()
	if len(w.text) > 1 && w.text[0] == '-' && w.plain[0] {
		t.Not, w = true, filterWord{w.text[1:], w.plain[1:]}
	}
	key, operator, value := keys.cutAtOperator(w)
	if operator == "" {
		p := w.pattern()
		p = append(append(Pattern{""}, p...), "")
		t.Key, t.Alternatives = "name", []FilterMatch{{Pattern: p}}
		return t, nil
	}
	k, found := keys.Find(key.String())
	if !found {
		return t, filterError("There is no filter key %q. Keys here: %s. Put text with a colon, < or > in quotes.", key.String(), keys.names())
	}
	t.Key = k.Key
	if k.Unit != UnitNone {
		return t, k.parseComparisons(&t, operator, value)
	}
	if operator != ":" {
		return t, filterError("%q cannot be compared: the values of %q are texts. Write %s:value.", term, k.Key, k.Key)
	}
	for more := true; more; {
		var alternative filterWord
		alternative, value, more = value.cutAtUnquoted(',')
		if len(alternative.text) == 0 {
			return t, filterError("In %q a value is missing. Write %s:value, or %s:one,two.", term, t.Key, t.Key)
		}
		t.Alternatives = append(t.Alternatives, FilterMatch{Pattern: alternative.pattern()})
		if t.Key == "label" {
			if err := t.parseLabel(alternative); err != nil {
				return t, err
			}
		}
	}
	if len(t.Alternatives) > maxAlternatives {
		return t, filterError("%s: has more than %d values.", t.Key, maxAlternatives)
	}
	return t, k.expandValues(&t)
}

// cutAtOperator splits at the first unquoted colon or comparison operator; without one, operator is empty. An equals
// sign after a known key counts as a colon. Anywhere else it is text, because names may contain it.
func (keys FilterKeys) cutAtOperator(w filterWord) (key filterWord, operator string, value filterWord) {
	for i, r := range w.text {
		if !w.plain[i] || !strings.ContainsRune(":<>=", r) {
			continue
		}
		before, op, end := filterWord{w.text[:i], w.plain[:i]}, string(r), i+1
		switch _, known := keys.Find(before.String()); {
		case r == '=' && !known:
			continue
		case r == '=':
			op = ":"
		case r != ':' && end < len(w.text) && w.plain[end] && w.text[end] == '=':
			op, end = op+"=", end+1
		}
		return before, op, filterWord{w.text[end:], w.plain[end:]}
	}
	return w, "", filterWord{}
}

// Find returns the key with the name or alias, in any case.
func (keys FilterKeys) Find(name string) (FilterKey, bool) {
	name = strings.ToLower(name)
	for _, k := range keys {
		if k.Key == name || slices.Contains(k.Aliases, name) {
			return k, true
		}
	}
	return FilterKey{}, false
}

// parseLabel parses the newest alternative of a label term: key=value, a further value for the previous key, or a key
// alone.
func (t *FilterTerm) parseLabel(w filterWord) error {
	m := &t.Alternatives[len(t.Alternatives)-1]
	key, value, found := w.cutAtUnquoted('=')
	switch {
	case found && len(key.text) == 0:
		return filterError("In %q the label's key is missing. Write label:key=value.", "label:"+w.String())
	case found:
		m.Label, m.Pattern = key.String(), value.pattern()
	case len(t.Alternatives) > 1 && !t.Alternatives[len(t.Alternatives)-2].matchesAll():
		m.Label = t.Alternatives[len(t.Alternatives)-2].Label
	default:
		m.Label, m.Pattern = w.String(), Pattern{"", ""}
	}
	return nil
}

func (p Pattern) matchesAll() bool { return len(p) == 2 && p[0] == "" && p[1] == "" }

// expandValues replaces patterns by the matching values, for keys with a fixed set of values.
func (k FilterKey) expandValues(t *FilterTerm) error {
	if k.Values == nil {
		return nil
	}
	var chosen []FilterMatch
	for _, m := range t.Alternatives {
		found := false
		for _, v := range k.Values {
			if m.Lower().Matches(strings.ToLower(v)) {
				chosen, found = append(chosen, FilterMatch{Pattern: Pattern{v}}), true
			}
		}
		if !found {
			return filterError("%s:%s matches nothing. Values: %s.", k.Key, strings.Join(m.Pattern, "*"), strings.Join(k.Values, ", "))
		}
	}
	t.Alternatives = chosen
	return nil
}

func (keys FilterKeys) names() string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Key
	}
	return strings.Join(names, ", ")
}
