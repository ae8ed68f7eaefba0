package metric

import (
	"bytes"
	"strconv"

	"quantix/internal/fleet"
)

// decodeSamples reads the JSON of samples that today's agents write: known fields, texts without escape sequences, and
// lists of numbers and nulls. text is valid JSON. ok is false for all other JSON, which package json decodes.
func decodeSamples(text []byte) (s Samples, ok bool) {
	d := decoder{text: text}
	d.object(func(name []byte) {
		switch string(name) {
		case "seconds":
			v, ok := d.number()
			d.failed = d.failed || !ok
			s.Seconds = v
		case "host":
			s.Host = d.table()
		case "vms":
			s.VMs = d.table()
		case "pools":
			s.Pools = d.table()
		default:
			d.failed = true
		}
	})
	return s, !d.failed && d.at == len(d.text)
}

// decoder reads a text from its start. After the first unexpected character, failed is true and nothing is read.
type decoder struct {
	text   []byte
	at     int
	failed bool
}

func (d *decoder) table() (t Table) {
	d.object(func(name []byte) {
		switch {
		case string(name) == "ids" && t.IDs == nil:
			t.IDs = []string{}
			d.list(func() { t.IDs = append(t.IDs, string(d.word())) })
		case string(name) == "values" && t.Values == nil:
			t.Values = map[string][]fleet.MetricValue{}
			d.object(func(metric []byte) {
				column := make([]fleet.MetricValue, 0, len(t.IDs))
				d.list(func() { column = append(column, d.value()) })
				t.Values[string(metric)] = column
			})
		default:
			d.failed = true
		}
	})
	return t
}

// object reads an object and calls member for each name, to read the value.
func (d *decoder) object(member func(name []byte)) {
	if d.skip('{'); d.next() == '}' {
		d.skip('}')
		return
	}
	for !d.failed {
		name := d.word()
		d.skip(':')
		member(name)
		if d.next() != ',' {
			break
		}
		d.skip(',')
	}
	d.skip('}')
}

// list reads a list and calls item to read each item.
func (d *decoder) list(item func()) {
	if d.skip('['); d.next() == ']' {
		d.skip(']')
		return
	}
	for !d.failed {
		item()
		if d.next() != ',' {
			break
		}
		d.skip(',')
	}
	d.skip(']')
}

// next returns the next character after white space; 0 at the end.
func (d *decoder) next() byte {
	for d.at < len(d.text) {
		switch c := d.text[d.at]; c {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return c
		}
	}
	return 0
}

func (d *decoder) skip(c byte) {
	if d.failed || d.next() != c {
		d.failed = true
		return
	}
	d.at++
}

// word reads a text without escape sequences.
func (d *decoder) word() []byte {
	d.skip('"')
	if d.failed {
		return nil
	}
	rest := d.text[d.at:]
	end := bytes.IndexByte(rest, '"')
	if end < 0 || !isPlain(string(rest[:end])) {
		d.failed = true
		return nil
	}
	d.at += end + 1
	return rest[:end]
}

// value reads a number or null. A number that is too large is no value.
func (d *decoder) value() fleet.MetricValue {
	if d.next() == 'n' && bytes.HasPrefix(d.text[d.at:], []byte("null")) {
		d.at += len("null")
		return fleet.NoMetricValue()
	}
	if v, ok := d.number(); ok {
		return fleet.MetricValue(v)
	}
	return fleet.NoMetricValue()
}

// number reads a number. ok is false if it is too large.
func (d *decoder) number() (v float64, ok bool) {
	d.next()
	start := d.at
	for d.at < len(d.text) && isNumeric(d.text[d.at]) {
		d.at++
	}
	if d.at == start {
		d.failed = true
		return 0, false
	}
	v, err := strconv.ParseFloat(string(d.text[start:d.at]), 64)
	return v, err == nil
}

func isNumeric(c byte) bool {
	return '0' <= c && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}
