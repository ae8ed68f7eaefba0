// Package exposition writes values of VMs, hosts and pools in the text format of Prometheus. The lines of a family
// must be together, so the values of all objects are in memory while they are written, in columns: about 350 bytes per
// VM.
package exposition

import (
	"bufio"
	"io"
	"math"
	"slices"
	"strconv"

	"quantix/internal/fleet"
)

// ContentType is the content type of the text format.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// valueDigits are the significant digits of a metric's value, which has an error of at least 0.04 %.
const valueDigits = 5

// Table holds objects of one resource type with their newest values of fleet.MetricsOf.
type Table struct {
	metrics []fleet.MetricInfo
	of      fleet.ResourceType
	labels  []string
	values  []float64 // per object, one per metric
	columns map[int]int
}

// NewTable returns a table with room for n objects.
func NewTable(of fleet.ResourceType, n int) *Table {
	t := &Table{of: of, metrics: fleet.MetricsOf(of), columns: map[int]int{}}
	for i, m := range t.metrics {
		t.columns[m.Number] = i
	}
	t.labels, t.values = make([]string, 0, n), make([]float64, 0, n*len(t.metrics))
	return t
}

// Add adds an object without values and returns its index. labels are from Labels.
func (t *Table) Add(labels string) int {
	t.labels = append(t.labels, labels)
	for range t.metrics {
		t.values = append(t.values, math.NaN())
	}
	return len(t.labels) - 1
}

// Set sets the values of an object by metric number. It ignores numbers that this version does not know.
func (t *Table) Set(object int, numbers []int, values []float64) {
	row := t.values[object*len(t.metrics):]
	for i, n := range numbers {
		if column, ok := t.columns[n]; ok {
			row[column] = values[i]
		}
	}
}

// Group is a family with its lines.
type Group struct {
	Name, Help string
	Series     []Value
}

// Value is one line of a Group.
type Value struct {
	Labels string // from Labels; empty: none
	Value  float64
}

// Add adds a line.
func (g *Group) Add(value float64, labels string) {
	g.Series = append(g.Series, Value{labels, value})
}

// AddBool adds a line with the value 1 or 0.
func (g *Group) AddBool(yes bool, labels string) {
	value := 0.0
	if yes {
		value = 1
	}
	g.Add(value, labels)
}

// Fleet holds the newest values of all VMs, hosts and pools.
type Fleet struct {
	Groups            []Group
	VMs, Hosts, Pools *Table
}

// Write writes gauges: the groups, and then the families of the tables. Missing values have no lines, and families
// without lines are left out.
func (f Fleet) Write(w io.Writer) error {
	p := &printer{out: bufio.NewWriterSize(w, 64<<10)}
	for _, g := range f.Groups {
		for _, v := range g.Series {
			p.print(g.Name, g.Help, v.Labels, "", v.Value, -1)
		}
	}
	for _, t := range []*Table{f.VMs, f.Hosts, f.Pools} {
		if t == nil {
			continue
		}
		for _, f := range families[t.of] {
			for _, s := range f.of {
				p.printColumn(t, f, s)
			}
		}
	}
	return p.out.Flush()
}

// printer writes lines. A bufio.Writer keeps its first error, so only Flush is checked.
type printer struct {
	out    *bufio.Writer
	family string // the family whose header was written last
	buf    []byte
}

func (p *printer) printColumn(t *Table, f family, s source) {
	column := slices.IndexFunc(t.metrics, func(m fleet.MetricInfo) bool { return m.Name == s.metric })
	scale := scaleOf(t.metrics[column].Unit)
	for i, labels := range t.labels {
		if v := t.values[i*len(t.metrics)+column]; !math.IsNaN(v) && !math.IsInf(v, 0) {
			p.print(f.name, f.help, labels, s.label, v*scale, valueDigits)
		}
	}
}

func (p *printer) print(name, help, labels, more string, value float64, digits int) {
	b := p.buf[:0]
	if p.family != name {
		p.family = name
		b = append(append(append(append(b, "# HELP "...), name...), ' '), help...)
		b = append(append(append(b, "\n# TYPE "...), name...), " gauge\n"...)
	}
	b = append(b, name...)
	if labels != "" || more != "" {
		b = append(append(b, '{'), labels...)
		if labels != "" && more != "" {
			b = append(b, ',')
		}
		b = append(append(b, more...), '}')
	}
	b = append(b, ' ')
	format := byte('g')
	if value == math.Trunc(value) && math.Abs(value) < 1e5 {
		format, digits = 'f', 0
	}
	b = append(strconv.AppendFloat(b, value, format, digits, 64), '\n')
	p.buf = b
	_, _ = p.out.Write(b)
}
