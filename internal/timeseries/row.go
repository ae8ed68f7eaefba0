package timeseries

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"quantix/internal/fleet"
	"quantix/internal/metric"
)

// Object is a VM, host, pool or cluster with metrics.
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
func NewRow(host fleet.HostID, in metric.Samples, keep func(Object) bool) (layout Layout, row []byte) {
	in.Host.IDs = []string{string(host)}
	row = layout.add(nil, fleet.TypeHost, in.Host, keep)
	row = layout.add(row, fleet.TypeVM, in.VMs, keep)
	return layout, layout.add(row, fleet.TypePool, in.Pools, keep)
}

// NewClusterRow returns the layout and the values of clusters.
func NewClusterRow(in metric.Table) (layout Layout, row []byte) {
	row = layout.add(nil, fleet.TypeCluster, in, func(Object) bool { return true })
	return layout, row
}

// add adds the objects that keep accepts to the layout and to the row. An object that is listed twice counts once.
func (l *Layout) add(row []byte, of fleet.ResourceType, in metric.Table, keep func(Object) bool) []byte {
	table, kept, seen := LayoutTable{Type: of}, []int{}, make(map[string]bool, len(in.IDs))
	for i, id := range in.IDs {
		if !seen[id] && keep(Object{of, id}) {
			seen[id] = true
			table.IDs, kept = append(table.IDs, id), append(kept, i)
		}
	}
	var columns [][]fleet.MetricValue
	var steps []float64
	for _, m := range fleet.MetricsOf(of) {
		if v := in.Values[m.Name]; len(v) == len(in.IDs) {
			table.Metrics, columns, steps = append(table.Metrics, m.Number), append(columns, v), append(steps, stepsPerOctave(m.Unit))
		}
	}
	if len(kept) == 0 || len(columns) == 0 {
		return row
	}
	l.Tables = append(l.Tables, table)
	for _, i := range kept {
		for c, v := range columns {
			row = binary.AppendUvarint(row, encodeValue(float64(v[i]), steps[c]))
		}
	}
	return row
}

// MaxHostBytes is the length of the start of a row that holds the values of the host.
const MaxHostBytes = 4 * maxMetrics

// OfHost returns the layout of only the host's values, which are the first ones of a row.
func (l Layout) OfHost() Layout {
	if len(l.Tables) == 0 || l.Tables[0].Type != fleet.TypeHost {
		return Layout{}
	}
	return Layout{Tables: l.Tables[:1]}
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
