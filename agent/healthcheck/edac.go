package healthcheck

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

// manyCorrected is the number of corrected errors of a module in a day that is more than chance.
const manyCorrected = 10

// maxDIMMs is the maximum number of modules that the check reads.
const maxDIMMs = 512

// Memory returns the check of the counters of memory errors that the kernel keeps (EDAC).
func Memory() Check { return memory("/", time.Now) }

func memory(root tree, now func() time.Time) Check {
	day := newGrowth(24 * time.Hour)
	return Check{Name: "edac", Interval: 5 * time.Minute, Timeout: 20 * time.Second, Run: func(context.Context) ([]healthevent.Finding, error) {
		dimms, broken := root.dimms()
		if len(dimms) == 0 && len(broken) == 0 {
			return nil, Unavailable("The kernel counts no memory errors (EDAC): the memory has no ECC, or the driver of its controller is missing.")
		}
		var out []healthevent.Finding
		names := map[string]bool{}
		for _, d := range dimms {
			names[d.object] = true
			out = append(out, d.findings(day.add(now(), d.object, d.corrected))...)
		}
		day.keepOnly(names)
		if len(broken) > 0 {
			return out, Partial{broken, fmt.Sprintf("The error counters of %s cannot be read: %s", fleet.CountWithUnit(len(broken), "memory module"), strings.Join(broken, ", "))}
		}
		return out, nil
	}}
}

// dimm is a memory module, or what a memory controller could not assign to one.
type dimm struct {
	object, label          string
	corrected, uncorrected float64 // since the start of the kernel
}

func (d dimm) findings(correctedToday float64) (out []healthevent.Finding) {
	name := d.label
	if name == "" {
		name = d.object
	}
	add := func(code string, severity fleet.AlarmSeverity, text string) {
		out = append(out, healthevent.Finding{
			Object: d.object, Code: code, Severity: severity, Text: text,
			Values: map[string]float64{"corrected": d.corrected, "uncorrected": d.uncorrected}, Attributes: map[string]string{"dimm": d.label},
		})
	}
	if d.uncorrected > 0 {
		add("memory-uncorrected", fleet.AlarmCritical, "The memory module "+name+" has had an uncorrected error since the host's start. Replace the module.")
	}
	switch {
	case correctedToday >= manyCorrected:
		// A power of ten, because each other text is a write of the portal.
		add("memory-corrected", fleet.AlarmWarning, fmt.Sprintf("The memory module %s has had at least %.0f corrected errors in 24 hours. Plan its replacement.", name, math.Pow(10, math.Floor(math.Log10(correctedToday)))))
	case correctedToday > 0:
		add("memory-corrected", fleet.AlarmInfo, "The memory module "+name+" has had corrected errors in the last 24 hours.")
	}
	return out
}

var (
	controllerName = regexp.MustCompile(`^mc[0-9]+$`)
	dimmName       = regexp.MustCompile(`^(dimm|rank)[0-9]+$`)
	rowName        = regexp.MustCompile(`^csrow[0-9]+$`)
	channelName    = regexp.MustCompile(`^ch([0-9]+)_ce_count$`)
)

// dimms reads the counters. broken are the objects whose counters exist and cannot be read.
func (t tree) dimms() (out []dimm, broken []string) {
	const dir = "sys/devices/system/edac/mc"
	read := func(object, label string, corrected, uncorrected []string) {
		if len(out)+len(broken) >= maxDIMMs {
			return
		}
		d := dimm{object: object, label: label}
		var ok, also bool
		d.corrected, ok = t.number(append([]string{dir}, corrected...)...)
		if d.uncorrected, also = t.number(append([]string{dir}, uncorrected...)...); ok && also {
			out = append(out, d)
		} else {
			broken = append(broken, object)
		}
	}
	for _, mc := range t.names(dir) {
		if !controllerName.MatchString(mc) {
			continue
		}
		modules := 0
		for _, m := range t.names(dir, mc) {
			if dimmName.MatchString(m) {
				modules++
				label, _ := t.line(dir, mc, m, "dimm_label")
				read("memory/"+mc+"/"+m, label, []string{mc, m, "dimm_ce_count"}, []string{mc, m, "dimm_ue_count"})
			}
		}
		if modules == 0 { // drivers and kernels that know only rows and channels
			t.readRows(dir, mc, read)
		}
		if t.exists(dir, mc, "ce_noinfo_count") {
			read("memory/"+mc, "", []string{mc, "ce_noinfo_count"}, []string{mc, "ue_noinfo_count"})
		}
	}
	return out, broken
}

func (t tree) readRows(dir, mc string, read func(object, label string, corrected, uncorrected []string)) {
	for _, row := range t.names(dir, mc) {
		if !rowName.MatchString(row) {
			continue
		}
		for _, file := range t.names(dir, mc, row) {
			m := channelName.FindStringSubmatch(file)
			if m == nil {
				continue
			}
			uncorrected := "ue_count" // of the row: older drivers do not count it for each channel
			if n, _ := strconv.Atoi(m[1]); t.exists(dir, mc, row, fmt.Sprintf("ch%d_ue_count", n)) {
				uncorrected = fmt.Sprintf("ch%d_ue_count", n)
			}
			label, _ := t.line(dir, mc, row, "ch"+m[1]+"_dimm_label")
			read("memory/"+mc+"/"+row+"/ch"+m[1], label, []string{mc, row, file}, []string{mc, row, uncorrected})
		}
	}
}
