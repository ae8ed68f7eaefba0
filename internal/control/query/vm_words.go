package query

import (
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// The table vm_words holds the search terms of VMs besides names and IDs: MAC addresses, IP addresses and labels.

// searchWordKinds maps filter keys to kinds of words in vm_words.
var searchWordKinds = map[string]string{"mac": "mac", "address": "ip"}

// matchesWordSQL is the condition that the VM has a matching word of that kind in vm_words. Indexes support exact
// words, prefixes and trigrams.
func (s *statementBuilder) matchesWordSQL(negate bool, kind string, any []fleet.FilterMatch) string {
	return "EXISTS (SELECT 1 FROM vm_words w WHERE w.vm_id = v.id AND w.kind = '" + kind + "' AND " + s.matchTextByTrigrams(negate, "w.word", any) + ")"
}

// Markers of a word's start and end in its trigrams, and the length of a trigram.
const (
	wordStartMarker, wordEndMarker = "\x02", "\x03"
	trigramLength                  = 3
)

// patternTrigrams returns the trigrams that every word matching the pattern contains, as pieces_of in SQL computes
// them, without duplicates. It is empty for a prefix, which the ordered index serves, and for parts that are too short.
func patternTrigrams(p fleet.Pattern) []string {
	if len(p) == 2 && p[1] == "" {
		return nil
	}
	var found []string
	for i, part := range p {
		if i == 0 {
			part = wordStartMarker + part
		}
		if i == len(p)-1 {
			part += wordEndMarker
		}
		text := []rune(part)
		for i := range len(text) - trigramLength + 1 {
			if trigram := string(text[i : i+trigramLength]); !slices.Contains(found, trigram) {
				found = append(found, trigram)
			}
		}
	}
	return found
}

// vmLabelsSQL is the condition that a VM's labels match. Exact labels are checked in the VM's own row, which is
// cheapest combined with other terms; patterns use vm_words.
func (s *statementBuilder) vmLabelsSQL(negate bool, any []fleet.FilterMatch) string {
	var exactLabels, prefixes []fleet.FilterMatch
	for _, m := range any {
		if _, exact := m.ExactText(); exact {
			exactLabels = append(exactLabels, m)
			continue
		}
		word := slices.Clone(m.Pattern)
		word[0] = m.Label + "=" + word[0]
		prefixes = append(prefixes, fleet.FilterMatch{Pattern: word})
	}
	switch {
	case len(prefixes) == 0:
		return s.matchLabels("v.labels", exactLabels)
	case len(exactLabels) == 0:
		return s.matchesWordSQL(negate, "label", prefixes)
	}
	return s.matchLabels("v.labels", exactLabels) + " OR " + s.matchesWordSQL(negate, "label", prefixes)
}

var (
	macPrefixPattern     = regexp.MustCompile(`^([0-9a-f]{2}-){1,5}[0-9a-f]{0,2}$`)
	addressPrefixPattern = regexp.MustCompile(`^[0-9a-f.:]+$`)
)

// searchWord normalizes typed text to the start of a word: MAC addresses with colons, complete IP addresses in
// canonical form, and all but a label's value in lower case.
func searchWord(text string) string {
	if key, value, ok := strings.Cut(text, "="); ok {
		return strings.ToLower(key) + "=" + value
	}
	folded := strings.ToLower(text)
	if mac, err := net.ParseMAC(folded); err == nil {
		return mac.String()
	}
	if ip, err := netip.ParseAddr(folded); err == nil {
		return ip.String()
	}
	if macPrefixPattern.MatchString(folded) {
		return strings.ReplaceAll(folded, "-", ":")
	}
	return folded
}
