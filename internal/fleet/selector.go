package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// MaxSelector is the maximum number of labels in a selector.
const MaxSelector = 16

// Selector matches labels. All of its conditions must be met. The zero Selector matches nothing.
type Selector struct {
	Pairs map[string]string // labels with a required value
	Keys  []string          // labels with any value
}

// ParseSelector parses "rack=4, ssd" and adds errors at field. A value with a comma or an asterisk needs quotes:
// zone="a, b". The result's String, parsed again, yields the same selector.
func ParseSelector(c *Checks, field, text string) Selector {
	words, err := splitSelector(text)
	if err != nil {
		c.Add(field, "%s", err)
		return Selector{}
	}
	s := Selector{Pairs: map[string]string{}, Keys: []string{}}
	for _, w := range words {
		key, value, found := w.CutAtUnquoted('=')
		k, v := strings.TrimSpace(key.String()), strings.TrimSpace(value.String())
		switch old, twice := s.Pairs[k]; {
		case w.hasAsterisk():
			c.Add(field, "A label selector has no asterisks: write key=value, or the key alone.")
			return Selector{}
		case found && v == "":
			c.Add(field, "In %q the value is missing. Write %s=value, or %s alone for any value.", w.String(), k, k)
		case found && twice && old != v:
			c.Add(field, "A label has only one value, and %s has two. Keep %s=%s or %s=%s.", k, k, old, k, v)
		case found:
			s.Pairs[k] = v
		default:
			s.Keys = append(s.Keys, k)
		}
	}
	slices.Sort(s.Keys)
	s.Keys = slices.Compact(s.Keys)
	s.Keys = slices.DeleteFunc(s.Keys, func(k string) bool { _, ok := s.Pairs[k]; return ok })
	if len(s.Pairs)+len(s.Keys) > MaxSelector {
		c.Add(field, "A selector has at most %d labels.", MaxSelector)
	}
	all := maps.Clone(s.Pairs)
	for _, k := range s.Keys {
		all[k] = ""
	}
	CheckLabels(c, field, all)
	return s
}

// splitSelector splits at commas and line ends outside quotes.
func splitSelector(text string) (words []QuotedText, err error) {
	var w QuotedText
	open := false
	end := func() {
		if strings.TrimSpace(w.String()) != "" {
			words = append(words, w)
		}
		w = QuotedText{}
	}
	for _, r := range text {
		switch {
		case r == '"':
			open = !open
		case !open && (r == ',' || r == '\n'):
			end()
		default:
			w = w.With(r, !open)
		}
	}
	if open {
		return nil, Errorf(Invalid, "A quotation mark is not closed. Write \"…\" around a value with a comma or an asterisk in it.")
	}
	end()
	return words, nil
}

// hasAsterisk reports whether the word has an asterisk outside quotes.
func (q QuotedText) hasAsterisk() bool {
	_, _, found := q.CutAtUnquoted('*')
	return found
}

// IsEmpty reports whether the selector has no conditions.
func (s Selector) IsEmpty() bool { return len(s.Pairs)+len(s.Keys) == 0 }

// Matches reports whether the labels satisfy all conditions.
func (s Selector) Matches(labels map[string]string) bool {
	for k, v := range s.Pairs {
		if has, ok := labels[k]; !ok || has != v {
			return false
		}
	}
	for _, k := range s.Keys {
		if _, ok := labels[k]; !ok {
			return false
		}
	}
	return !s.IsEmpty()
}

// String returns the selector in the syntax of ParseSelector: keys with values first, sorted.
func (s Selector) String() string {
	words := make([]string, 0, len(s.Pairs)+len(s.Keys))
	for _, k := range slices.Sorted(maps.Keys(s.Pairs)) {
		v := s.Pairs[k]
		if strings.ContainsAny(v, ",*") {
			v = `"` + v + `"`
		}
		words = append(words, k+"="+v)
	}
	return strings.Join(append(words, s.Keys...), ", ")
}

// ByLabel is the automatic assignment of a pool or network to the hosts whose labels match a selector.
type ByLabel struct {
	Selector string `json:"selector"` // "rack=4, ssd"; empty: no assignment by label
	// LeftOut lists the first matching hosts that do not have the object: hosts to which the object could not be assigned,
	// then hosts where a user released the object.
	LeftOut        []LeftOutHost `json:"left"`
	LeftOutCount   int           `json:"leftAll"`   // number of all matching hosts that do not have the object
	Unmatched      []NamedHost   `json:"beside"`    // first hosts that have the object although they do not match
	UnmatchedCount int           `json:"besideAll"` // number of all hosts that have the object although they do not match
	// Waiting is set only in the response to a change of the selector: more hosts match than were assigned at once. The
	// other hosts follow later.
	Waiting bool `json:"waiting,omitempty"`
}

// LeftOutHost is a matching host that does not have the object, with the reason.
type LeftOutHost struct {
	NamedHost
	Why string `json:"why"`
}

// NamedHost is a host's ID and name.
type NamedHost struct {
	HostID   HostID `json:"hostId"`
	HostName string `json:"hostName"`
}

// ReleasedByPerson is the reason why an object is no longer assigned to a host after a user released it there.
const ReleasedByPerson = "Released by a user; not assigned again by label."

// WhyNotAssigned returns the stored reason as text. An empty reason means that a user released the object on the host.
func WhyNotAssigned(why string) string { return cmp.Or(why, ReleasedByPerson) }

// MatchingHosts lists the hosts that a selector matches now.
type MatchingHosts struct {
	Hosts   []MatchingHost // first few hosts, those without the object first
	All     int
	Without int // matching hosts without the object
}

// MatchingHost is a host that a selector matches.
type MatchingHost struct {
	NamedHost
	Has bool
}

// RetryResult is the result of a retry of an object on all hosts where it failed.
type RetryResult struct {
	Tasks   []TaskID
	Offline int // offline hosts, which retry when they are online again
	More    int // further hosts where the object failed, beyond the limit of one request
}
