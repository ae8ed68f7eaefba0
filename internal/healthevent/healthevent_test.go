package healthevent

import (
	"math"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func find(object string, severity fleet.AlarmSeverity, text string) Finding {
	return Finding{Object: object, Code: "broken", Severity: severity, Text: text}
}

func TestDiffOfReports(t *testing.T) {
	t.Parallel()
	open := []Condition{
		{Check: "smart", Finding: find("disk/sda", fleet.AlarmWarning, "a")},
		{Check: "smart", Finding: find("disk/sdb", fleet.AlarmWarning, "b")},
		{Check: "smart", Finding: find("disk/sdc", fleet.AlarmWarning, "c"), Occurrence: true},
		{Check: "nic", Finding: find("nic/eth0", fleet.AlarmWarning, "n")},
	}
	objects := func(all []Finding) (out []string) {
		for _, f := range all {
			out = append(out, f.Object)
		}
		return out
	}
	for name, c := range map[string]struct {
		in                           CheckReport
		raise, update, notify, clear []string
	}{
		"nothing found":     {CheckReport{State: CheckOK}, nil, nil, nil, []string{"disk/sda", "disk/sdb"}},
		"unavailable":       {CheckReport{State: CheckUnavailable}, nil, nil, nil, []string{"disk/sda", "disk/sdb"}},
		"failed":            {CheckReport{State: CheckFailed}, nil, nil, nil, nil},
		"one disk unread":   {CheckReport{State: CheckFailed, Unread: []string{"disk/sdb"}}, nil, nil, nil, []string{"disk/sda"}},
		"same and new":      {CheckReport{State: CheckOK, Findings: []Finding{find("disk/sda", fleet.AlarmWarning, "a"), find("disk/sdb", fleet.AlarmWarning, "b"), find("disk/sdd", fleet.AlarmInfo, "d")}}, []string{"disk/sdd"}, nil, nil, nil},
		"text":              {CheckReport{State: CheckOK, Findings: []Finding{find("disk/sda", fleet.AlarmWarning, "worse"), find("disk/sdb", fleet.AlarmWarning, "b")}}, nil, []string{"disk/sda"}, nil, nil},
		"severity":          {CheckReport{State: CheckOK, Findings: []Finding{find("disk/sda", fleet.AlarmCritical, "a"), find("disk/sdb", fleet.AlarmWarning, "b")}}, nil, []string{"disk/sda"}, []string{"disk/sda"}, nil},
		"repeated findings": {CheckReport{State: CheckOK, Findings: []Finding{find("disk/sdd", fleet.AlarmInfo, "d"), find("disk/sdd", fleet.AlarmInfo, "e")}}, []string{"disk/sdd"}, nil, nil, []string{"disk/sda", "disk/sdb"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.in.Check = "smart"
			d := Diff(open, c.in)
			for word, pair := range map[string][2][]string{"raised": {objects(d.Raise), c.raise}, "updated": {objects(d.Update), c.update}, "notified": {objects(d.Notify), c.notify}, "cleared": {objects(d.Clear), c.clear}} {
				if !slices.Equal(pair[0], pair[1]) {
					t.Errorf("%s: %v instead of %v", word, pair[0], pair[1])
				}
			}
		})
	}
}

func TestChangedValueIsUpdateButNoDifference(t *testing.T) {
	t.Parallel()
	cold, warm := find("disk/sda", fleet.AlarmWarning, "a"), find("disk/sda", fleet.AlarmWarning, "a")
	cold.Values, warm.Values = map[string]float64{"temperature": 40}, map[string]float64{"temperature": 41}
	before, after := CheckReport{Check: "smart", State: CheckOK, Findings: []Finding{cold}}, CheckReport{Check: "smart", State: CheckOK, Findings: []Finding{warm}}
	if d := Diff([]Condition{{Check: "smart", Finding: cold}}, after); len(d.Update) != 1 || len(d.Notify) != 0 {
		t.Errorf("the changes are %+v", d)
	}
	if after.DiffersFrom(before) {
		t.Error("a value alone makes a report differ")
	}
}

// TestReportOfHostileAgentIsCut checks the bounds of everything that a report contains.
func TestReportOfHostileAgentIsCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 10_000)
	bad := Finding{
		Object: long, Code: "a\x00\x1b[31mb\xff", Severity: "fatal", Text: long, Values: map[string]float64{"nan": math.NaN(), "inf": math.Inf(1), "ok": 1}, Attributes: map[string]string{},
	}
	for i := range 100 {
		bad.Attributes[strings.Repeat("k", i+1)] = long
	}
	r := Report{Instance: long, Number: 1000, Checks: []CheckReport{{Check: "", State: CheckOK}, {Check: "a", State: "odd", Findings: slices.Repeat([]Finding{bad}, 1000)}, {Check: "a", State: CheckOK}}}
	for range 1000 {
		r.Occurrences = append(r.Occurrences, Occurrence{Check: long, Finding: bad, AgoMs: math.MaxInt64, Repeats: -1})
	}
	r.Occurrences[999].Check = "last"
	got, dropped := r.Valid()
	if len(got.Checks) != 1 || got.Checks[0].State != CheckFailed || len(got.Checks[0].Findings) != MaxFindings || len(got.Occurrences) != MaxOccurrences || dropped != 2+744+744 {
		t.Fatalf("%d checks, %d occurrences, %d dropped", len(got.Checks), len(got.Occurrences), dropped)
	}
	if got.Occurrences[MaxOccurrences-1].Check != "last" {
		t.Error("the number is no longer that of the last occurrence")
	}
	o := got.Occurrences[0]
	f := o.Finding
	if len(f.Object) > MaxName || len(f.Text) > MaxText || f.Code != "a[31mb" || f.Severity != fleet.AlarmWarning || len(f.Attributes) > MaxValues || len(f.Values) != 1 || o.Repeats != 1 || o.AgoMs > 24*3600*1000 {
		t.Errorf("the finding is %+v", o)
	}
}
