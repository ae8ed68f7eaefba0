package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Samples that exceed a bound, or that are no samples at all, are refused with a reason. The rest of the report is kept.
func TestBadSamplesDoNotMakeReportInvalid(t *testing.T) {
	t.Parallel()
	many := func(n int, item string) string {
		return strings.TrimSuffix(strings.Repeat(item+",", n), ",")
	}
	series := make([]string, 10_000)
	for i := range series {
		series[i] = fmt.Sprintf(`"metric-%d":[1]`, i)
	}
	for name, c := range map[string]struct{ samples, want string }{
		"10,000 series":         {`{"vms":{"ids":["a"],"values":{` + strings.Join(series, ",") + `}}}`, "has 10000 metrics; 64 at most"},
		"10,000 objects":        {`{"vms":{"ids":[` + many(10_000, `"a"`) + `],"values":{"cpu.usage":[` + many(10_000, "1") + `]}}}`, "values of 10000 objects; 4096 at most"},
		"an ID of a megabyte":   {`{"vms":{"ids":["` + strings.Repeat("a", 1<<20) + `"],"values":{"cpu.usage":[1]}}}`, "an ID of 1048576 bytes"},
		"a name of a megabyte":  {`{"host":{"ids":[""],"values":{"` + strings.Repeat("a", 1<<20) + `":[1]}}}`, "a name of 1048576 bytes"},
		"too few values":        {`{"vms":{"ids":["a","b"],"values":{"cpu.usage":[1]}}}`, "1 values for 2 objects"},
		"a text for the tables": {`{"vms":"none"}`, "cannot be decoded"},
		"a huge interval":       {`{"seconds":1e999}`, "cannot be decoded"},
		"a list":                {`[]`, "cannot be decoded"},
	} {
		var r wire.Report
		if err := json.Unmarshal([]byte(`{"seq":7,"digest":"d","samples":`+c.samples+`,"meters":[{"id":"0192a000-0000-7000-8000-000000000001","cpuNanos":5}]}`), &r); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := wire.EnforceBounds(&r); err != nil || r.Seq != 7 || len(r.Meters) != 1 {
			t.Errorf("%s: the report is lost: %v", name, err)
		}
		if r.Samples == nil || !strings.Contains(r.Samples.Refused, c.want) || len(r.Samples.Refused) > 500 || len(r.Samples.VMs.IDs)+len(r.Samples.Host.Values) > 0 {
			t.Errorf("%s: %.300v, want a refusal with %q", name, r.Samples, c.want)
		}
	}
}

// A value that is no number, or too large for one, is missing; the other values are kept.
func TestValuesThatAreNoNumbersAreMissing(t *testing.T) {
	t.Parallel()
	var r wire.Report
	text := `{"samples":{"seconds":10,"vms":{"ids":["a","b","c","d","e","f"],"values":{"cpu.usage":[1e999,-1e999,"NaN",null,{"x":1},12.5]}}}}`
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if err := wire.EnforceBounds(&r); err != nil || r.Samples.Refused != "" {
		t.Fatalf("%v, %q", err, r.Samples.Refused)
	}
	got := r.Samples.VMs.Values["cpu.usage"]
	for i, v := range got[:5] {
		if !v.IsMissing() {
			t.Errorf("value %d is %v", i, v)
		}
	}
	if got[5] != fleet.MetricValue(12.5) {
		t.Errorf("the number is %v", got[5])
	}
}
