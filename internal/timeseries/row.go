package timeseries

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"quantix/internal/fleet"
)

// Object is a VM, host or pool with metrics.
type Object struct {
	Type fleet.ResourceType
	ID   string
}

// Layout names the values of a row. Hosts keep their layout for hours, so a row only refers to it.
type Layout struct {
	Tables []LayoutTable `json:"tables"`
}

// LayoutTable names the values of a row's objects of one type: for each ID, one value per metric number.
type LayoutTable struct {
	Type    fleet.ResourceType `json:"type"`
	IDs     []string           `json:"ids"`
	Metrics []int              `json:"metrics"`
}

// Text returns the layout's stored form and its hash.
func (l Layout) Text() (text []byte, hash [sha256.Size]byte, err error) {
	text, err = json.Marshal(l)
	return text, sha256.Sum256(text), err
}

// ReadLayout reads a stored layout.
func ReadLayout(text []byte) (l Layout, err error) {
	if err := json.Unmarshal(text, &l); err != nil {
		return l, fmt.Errorf("%w: layout: %w", errCorrupt, err)
	}
	return l, nil
}

// NewRow returns the layout and the values of a host's samples. It keeps the objects for which keep returns true, and
// drops metrics that fleet does not know, which are those of a newer agent.
func NewRow(host fleet.HostID, in fleet.Samples, keep func(Object) bool) (layout Layout, row []byte) {
	in.Host.IDs = []string{string(host)}
	for _, t := range []struct {
		of fleet.ResourceType
		fleet.SampleTable
	}{{fleet.TypeHost, in.Host}, {fleet.TypeVM, in.VMs}, {fleet.TypePool, in.Pools}} {
		table, kept := LayoutTable{Type: t.of}, []int{}
		for i, id := range t.IDs {
			if keep(Object{t.of, id}) {
				table.IDs, kept = append(table.IDs, id), append(kept, i)
			}
		}
		var columns [][]fleet.MetricValue
		var steps []float64
		for _, m := range fleet.MetricsOf(t.of) {
			if v := t.Values[m.Name]; len(v) == len(t.IDs) {
				table.Metrics, columns, steps = append(table.Metrics, m.Number), append(columns, v), append(steps, stepsPerOctave(m.Unit))
			}
		}
		if len(kept) == 0 || len(columns) == 0 {
			continue
		}
		layout.Tables = append(layout.Tables, table)
		for _, i := range kept {
			for c, v := range columns {
				row = binary.AppendUvarint(row, encodeValue(float64(v[i]), steps[c]))
			}
		}
	}
	return layout, row
}

// Read calls visit for each object of a row that want accepts. The slices are valid until visit returns: a value for each
// metric number, NaN if there is none.
func (l Layout) Read(row []byte, want func(Object) bool, visit func(o Object, metrics []int, values []float64)) error {
	r := reader{data: row}
	var codes []uint64
	var values []float64
	for _, t := range l.Tables {
		steps := stepsByNumber(t.Type)
		for _, id := range t.IDs {
			codes = codes[:0]
			for range t.Metrics {
				codes = append(codes, r.uvarint(anyCode))
			}
			if o := (Object{t.Type, id}); r.err == nil && want(o) {
				values = values[:0]
				for i, m := range t.Metrics {
					values = append(values, decodeValue(codes[i], steps[m]))
				}
				visit(o, t.Metrics, values)
			}
		}
	}
	if r.err == nil && len(r.data) > 0 {
		r.err = errCorrupt
	}
	return r.err
}
