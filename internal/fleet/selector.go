package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// MaxSelector is how many labels a selector asks for at most.
const MaxSelector = 16

// Selector asks for labels, all of which must be there. The zero Selector asks for nothing and matches nothing.
type Selector struct {
	Pairs map[string]string // labels with their values
	Keys  []string          // labels with whichever value
}

// ParseSelector reads "rack=4, ssd" and notes at field what is wrong with it. A value with a comma or an asterisk in it stands in quotes: zone="a, b". Once
// parsed, it reads the same again.
func ParseSelector(c *Checks, field, text string) Selector {
	words, err := splitSelector(text)
	if err != nil {
		c.Add(field, "%s", err)
		return Selector{}
	}
	s := Selector{Pairs: map[string]string{}, Keys: []string{}}
	for _, w := range words {
		key, value, found := w.cut('=')
		k, v := strings.TrimSpace(key.String()), strings.TrimSpace(value.String())
		switch old, twice := s.Pairs[k]; {
		case w.starred():
			c.Add(field, "A label is asked for as a whole: write key=value, or the key alone, without asterisks.")
			return Selector{}
		case found && v == "":
			c.Add(field, "In %q the value is missing. Write %s=value, or %s alone for whichever value.", w.String(), k, k)
		case found && twice && old != v:
			c.Add(field, "No host has the label %s twice. Ask for %s=%s or for %s=%s.", k, k, old, k, v)
		case found:
			s.Pairs[k] = v
		default:
			s.Keys = append(s.Keys, k)
		}
	}
	slices.Sort(s.Keys)
	s.Keys = slices.Compact(s.Keys)
	s.Keys = slices.DeleteFunc(s.Keys, func(k string) bool { _, asked := s.Pairs[k]; return asked })
	if len(s.Pairs)+len(s.Keys) > MaxSelector {
		c.Add(field, "Ask for at most %d labels.", MaxSelector)
	}
	all := maps.Clone(s.Pairs)
	for _, k := range s.Keys {
		all[k] = ""
	}
	CheckLabels(c, field, all)
	return s
}

// splitSelector cuts at commas and line ends that are not in quotes.
func splitSelector(text string) (words []filterWord, err error) {
	var w filterWord
	open := false
	end := func() {
		if strings.TrimSpace(w.String()) != "" {
			words = append(words, w)
		}
		w = filterWord{}
	}
	for _, r := range text {
		switch {
		case r == '"':
			open = !open
		case !open && (r == ',' || r == '\n'):
			end()
		default:
			w.text, w.plain = append(w.text, r), append(w.plain, !open)
		}
	}
	if open {
		return nil, Errorf(Invalid, "A quotation mark is not closed. Write \"…\" around a value with a comma or an asterisk in it.")
	}
	end()
	return words, nil
}

// starred reports whether there is an asterisk that is not in quotes.
func (w filterWord) starred() bool {
	_, _, found := w.cut('*')
	return found
}

// Empty reports whether nothing is asked for.
func (s Selector) Empty() bool { return len(s.Pairs)+len(s.Keys) == 0 }

// Matches reports whether a host with the labels has all that is asked for.
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
	return !s.Empty()
}

// String is the selector as ParseSelector reads it: keys with values first, in their order.
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

// ByLabel is how an object comes to hosts by their labels.
type ByLabel struct {
	Selector string        `json:"selector"`          // "rack=4, ssd"; empty: it comes to no host by itself
	Left     []LeftOutHost `json:"left"`              // hosts that do not have it though they match: the first few, those first that cannot
	LeftAll  int           `json:"leftAll"`           // how many there are
	Beside   []NamedHost   `json:"beside"`            // hosts that have it though they do not match: the first few
	All      int           `json:"besideAll"`         // how many there are
	Waiting  bool          `json:"waiting,omitempty"` // only in the answer that sets it: more hosts match than it came to at once; they follow
}

// LeftOutHost is a host that does not get an object by its labels.
type LeftOutHost struct {
	NamedHost
	Why string `json:"why"`
}

// NamedHost is a host by id and name.
type NamedHost struct {
	HostID   HostID `json:"hostId"`
	HostName string `json:"hostName"`
}

// ReleasedByPerson is why an object stays away from a host where somebody released it.
const ReleasedByPerson = "Released by a person; not assigned again by label."

// WhyLeftOut is why as people read it; empty: a person released it.
func WhyLeftOut(why string) string { return cmp.Or(why, ReleasedByPerson) }

// Labelled is which hosts a selector matches now.
type Labelled struct {
	Hosts   []LabelledHost // the first few: those first that do not have the object
	All     int
	Without int // of all, those that do not have it
}

// LabelledHost is a host that a selector matches.
type LabelledHost struct {
	NamedHost
	Has bool
}

// Retried is what came of asking all failed hosts of an object to try again.
type Retried struct {
	Tasks   []TaskID
	Offline int // hosts that are not heard: they try by themselves when they are back
	More    int // hosts that failed, too, beyond what one order is about
}
