package metric_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"quantix/internal/fleet"
	"quantix/internal/metric"
)

// derived has the fields of metric.Samples, and the JSON that package json derives from them.
type derived struct {
	Seconds float64      `json:"seconds"`
	Host    metric.Table `json:"host,omitzero"`
	VMs     metric.Table `json:"vms,omitzero"`
	Pools   metric.Table `json:"pools,omitzero"`
}

func asDerived(s metric.Samples) derived { return derived{s.Seconds, s.Host, s.VMs, s.Pools} }

// The JSON of samples is the one that package json derives from the fields, with any IDs, names and values.
func TestJSONIsThatOfTheFields(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.StringMatching(`[a-z0-9.-]{0,12}`), rapid.String())
	value := rapid.Custom(func(t *rapid.T) fleet.MetricValue {
		return fleet.MetricValue(rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN()), rapid.Just(0.0), rapid.Just(12.5)).Draw(t, "value"))
	})
	table := rapid.Custom(func(t *rapid.T) metric.Table {
		ids := rapid.SliceOfN(text, 0, 4).Draw(t, "ids")
		column := rapid.OneOf(rapid.SliceOfN(value, len(ids), len(ids)), rapid.Just[[]fleet.MetricValue](nil))
		return metric.Table{IDs: ids, Values: rapid.MapOfN(text, column, 0, 4).Draw(t, "values")}
	})
	rapid.Check(t, func(t *rapid.T) {
		s := metric.Samples{Seconds: rapid.Float64Range(-1e6, 1e6).Draw(t, "seconds"), Host: table.Draw(t, "host"), VMs: table.Draw(t, "vms"), Pools: table.Draw(t, "pools")}
		got, err := json.Marshal(s)
		want, err2 := json.Marshal(asDerived(s))
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if string(got) != string(want) {
			t.Fatalf("JSON\n%s, want\n%s", got, want)
		}
		checkDecoding(t, got)
	})
}

// equalValues compares values; one missing value is as good as another.
var equalValues = cmp.Comparer(func(a, b fleet.MetricValue) bool { return a == b || a.IsMissing() && b.IsMissing() })

// checkDecoding compares the decoded samples with what package json decodes into the same fields.
func checkDecoding(t interface {
	Helper()
	Fatalf(string, ...any)
}, text []byte,
) {
	t.Helper()
	var got metric.Samples
	var want derived
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if err := json.Unmarshal(text, &want); err != nil {
		if got.Refused == "" {
			t.Fatalf("%s is decoded, but package json says: %v", text, err)
		}
		return
	}
	if diff := cmp.Diff(want, asDerived(got), equalValues, cmpopts.EquateEmpty()); diff != "" || got.Refused != "" {
		t.Fatalf("%s: refused %q (-package json +got):\n%s", text, got.Refused, diff)
	}
}

func FuzzSamplesAreDecodedAsByPackageJSON(f *testing.F) {
	for _, text := range []string{
		`{"seconds":10,"host":{"ids":[""],"values":{"cpu.user":[1.5]}},"vms":{"ids":["a","b"],"values":{"cpu.usage":[1,null]}}}`,
		` { "seconds" : 1e1 , "pools" : { "values" : { "x" : [ -0.5 , 1e999 , true , "NaN" , {"x":[1]} ] } , "ids" : [ ] } } `,
		`{"vms":{"ids":["\u0061","b"]},"newer":[{"a":1}],"seconds":null}`,
		`{"vms":{"ids":["a"]},"vms":{"ids":["b"],"values":null}}`,
		`{"VMS":{"IDs":["a"],"VALUES":{"a":[1],"a":[2,3]}}}`,
		`{"vms":"none"}`, `[]`, `null`, `{}`, `{"seconds":1e999}`, `{"vms":{"ids":null,"values":{}}}`, `{"vms":{"ids":["a"],"ids":["b","c"]}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if json.Valid([]byte(text)) && text != "null" {
			checkDecoding(t, []byte(text))
		}
	})
}
