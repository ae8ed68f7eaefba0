package kit

import "strconv"

// UsageSegment is one part of a capacity bar. Class is "", "ok", "warn", "bad", "res" or "provisioned".
type UsageSegment struct {
	Percent int
	Class   string
}

// AllocationSegments are the parts of whole that VMs of Quantix and running discovered VMs use. Together they fill the bar
// at most.
func AllocationSegments(vms, discovered, whole int64) []UsageSegment {
	used, found := Percent(vms, whole), Percent(discovered, whole)
	return []UsageSegment{{Percent: used, Class: UsageClass(used + found)}, {Percent: min(found, 100-used), Class: "provisioned"}}
}

// AllocationText describes AllocationSegments for screen readers: "40 % of the memory is used, 10 % by discovered VMs".
func AllocationText(what string, vms, discovered, whole int64) string {
	text := strconv.Itoa(Percent(vms+discovered, whole)) + " % " + what
	if discovered > 0 {
		text += ", " + strconv.Itoa(Percent(discovered, whole)) + " % by discovered VMs"
	}
	return text
}

// VMCountText counts VMs and discovered VMs: "3 VMs, 2 discovered".
func VMCountText(vms, discovered int) string {
	text := CountText(vms, "VM")
	if discovered > 0 {
		text += ", " + strconv.Itoa(discovered) + " discovered"
	}
	return text
}

// DiscoveredShareText names the share that running discovered VMs have: ", 4 GiB by discovered VMs"; empty without one.
func DiscoveredShareText(n int64, text string) string {
	if n == 0 {
		return ""
	}
	return ", " + text + " by discovered VMs"
}

// UsageClass is the class of a usage bar: "warn" from 80 %, "bad" from 90 %.
func UsageClass(percent int) string {
	switch {
	case percent >= 90:
		return "bad"
	case percent >= 80:
		return "warn"
	}
	return ""
}
