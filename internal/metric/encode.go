package metric

import (
	"encoding/json"
	"maps"
	"slices"

	"quantix/internal/fleet"
)

// bytesPerValue is about the length of a value's JSON.
const bytesPerValue = 8

// encodeSamples returns the JSON of samples. ok is false if a text needs escape sequences or the interval is not finite.
func encodeSamples(s Samples) (out []byte, ok bool) {
	seconds, err := json.Marshal(s.Seconds) // package json changes to exponents at other limits than strconv
	if err != nil {
		return nil, false
	}
	tables := [...]struct {
		name string
		Table
	}{{"host", s.Host}, {"vms", s.VMs}, {"pools", s.Pools}}
	size := 64
	for _, t := range tables {
		size += len(t.IDs) * (40 + bytesPerValue*len(t.Values))
	}
	out = append(make([]byte, 0, size), `{"seconds":`...)
	out = append(out, seconds...)
	for _, t := range tables {
		if t.IDs == nil && t.Values == nil {
			continue
		}
		out = append(append(append(out, `,"`...), t.name...), `":`...)
		if out, ok = t.append(out); !ok {
			return nil, false
		}
	}
	return append(out, '}'), true
}

func (t Table) append(out []byte) ([]byte, bool) {
	out = append(out, '{')
	if len(t.IDs) > 0 {
		out = append(out, `"ids":[`...)
		for i, id := range t.IDs {
			if i > 0 {
				out = append(out, ',')
			}
			if !isPlain(id) {
				return nil, false
			}
			out = append(append(append(out, '"'), id...), '"')
		}
		out = append(out, ']')
	}
	if len(t.Values) > 0 {
		if len(t.IDs) > 0 {
			out = append(out, ',')
		}
		out = append(out, `"values":{`...)
		for i, name := range slices.Sorted(maps.Keys(t.Values)) {
			if i > 0 {
				out = append(out, ',')
			}
			if !isPlain(name) {
				return nil, false
			}
			out = append(append(append(out, '"'), name...), `":`...)
			out = appendColumn(out, t.Values[name])
		}
		out = append(out, '}')
	}
	return append(out, '}'), true
}

func appendColumn(out []byte, column []fleet.MetricValue) []byte {
	if column == nil {
		return append(out, "null"...)
	}
	out = append(out, '[')
	for i, v := range column {
		if i > 0 {
			out = append(out, ',')
		}
		out = v.AppendJSON(out)
	}
	return append(out, ']')
}

// isPlain reports whether the text is the same in JSON and in the other forms that package json writes.
func isPlain(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c >= 0x7f, c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}
