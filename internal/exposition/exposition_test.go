package exposition

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"quantix/internal/fleet"
)

// parse parses the written text.
func parse(t *testing.T, f Fleet) map[string]*dto.MetricFamily {
	t.Helper()
	var out bytes.Buffer
	if err := f.Write(&out); err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.New(bytes.NewReader(out.Bytes())).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(&out)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// fullTable returns a table with one object that has all values.
func fullTable(of fleet.ResourceType, labels string) *Table {
	t := NewTable(of, 1)
	var numbers []int
	var values []float64
	for i, m := range fleet.MetricsOf(of) {
		numbers, values = append(numbers, m.Number), append(values, float64(i+1))
	}
	t.Set(t.Add(labels), numbers, values)
	return t
}

func TestEveryMetricIsInOneFamily(t *testing.T) {
	t.Parallel()
	for _, of := range []fleet.ResourceType{fleet.TypeVM, fleet.TypeHost, fleet.TypePool} {
		counts := map[string]int{}
		for _, f := range families[of] {
			for _, s := range f.of {
				counts[s.metric]++
			}
		}
		for _, m := range fleet.MetricsOf(of) {
			if counts[m.Name] != 1 {
				t.Errorf("%s metric %s is in %d families, want 1", of, m.Name, counts[m.Name])
			}
			delete(counts, m.Name)
		}
		for name := range counts {
			t.Errorf("%s has no metric %s", of, name)
		}
	}
}

func TestFleetFollowsConventions(t *testing.T) {
	t.Parallel()
	all := parse(t, Fleet{
		Groups: []Group{{Name: "quantix_vm_info", Help: "A VM; the value is always 1.", Series: []Value{{Labels("vm", "v1"), 1}}}},
		VMs:    fullTable(fleet.TypeVM, Labels("vm", "v1")), Hosts: fullTable(fleet.TypeHost, Labels("host", "h1")), Pools: fullTable(fleet.TypePool, Labels("pool", "p1")),
	})
	want := 1
	for _, of := range families {
		want += len(of)
	}
	if len(all) != want {
		t.Errorf("%d families, want %d", len(all), want)
	}
	if v := all["quantix_vm_cpu_usage_ratio"].GetMetric()[0].GetGauge().GetValue(); v != 0.01 {
		t.Errorf("1 %% is the ratio %v", v)
	}
	if n := len(all["quantix_host_cpu_usage_ratio"].GetMetric()); n != 5 {
		t.Errorf("%d CPU modes", n)
	}
}

func TestMissingValuesAreLeftOut(t *testing.T) {
	t.Parallel()
	vms := NewTable(fleet.TypeVM, 2)
	vms.Add(Labels("vm", "off"))
	vms.Set(vms.Add(Labels("vm", "on")), []int{1, 2, 999}, []float64{50, math.NaN(), 7})
	all := parse(t, Fleet{VMs: vms})
	if len(all) != 1 || len(all["quantix_vm_cpu_usage_ratio"].GetMetric()) != 1 || all["quantix_vm_cpu_usage_ratio"].GetMetric()[0].GetGauge().GetValue() != 0.5 {
		t.Errorf("families: %v", all)
	}
}

// Names of VMs are bounded text, but names that a host reports may be anything.
func TestOddLabelValuesParse(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		`quo"te`, `back\slash`, "new\nline", `ends with \`, "ünï çø∂é 🖥", "{vm=\"x\"} 7", "broken \xff\xfe", "", strings.Repeat("é", MaxLabelBytes), strings.Repeat("\xff", 2*MaxLabelBytes), "tab\tand\rreturn",
	} {
		vms := NewTable(fleet.TypeVM, 1)
		vms.Set(vms.Add(Labels("vm", "id", "name", name)), []int{1}, []float64{100})
		all := parse(t, Fleet{VMs: vms})
		got := ""
		for _, l := range all["quantix_vm_cpu_usage_ratio"].GetMetric()[0].GetLabel() {
			if l.GetName() == "name" {
				got = l.GetValue()
			}
		}
		if got != LabelValue(name) || !utf8.ValidString(got) || len(got) > 3*MaxLabelBytes {
			t.Errorf("the name %q became %q", name, got)
		}
		if utf8.ValidString(name) && len(name) <= MaxLabelBytes && got != name {
			t.Errorf("the name %q became %q", name, got)
		}
	}
}

// BenchmarkWrite writes the values of 10,000 VMs.
func BenchmarkWrite(b *testing.B) {
	vms := NewTable(fleet.TypeVM, 10_000)
	numbers, values := []int{}, []float64{}
	for i, m := range fleet.VMMetrics {
		numbers, values = append(numbers, m.Number), append(values, 1234.5678*float64(i+1))
	}
	for range 10_000 {
		vms.Set(vms.Add(Labels("vm", "01890000-0000-7000-8000-000001000200", "name", "web-frontend", "project", "production", "host", "host-00001")), numbers, values)
	}
	b.ReportAllocs()
	for b.Loop() {
		var n counter
		if err := (Fleet{VMs: vms}).Write(&n); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(n))
	}
}

type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
