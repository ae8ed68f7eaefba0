package kit

// UsageSegment is one part of a capacity bar. Class is "", "ok", "warn", "bad", "res" or "provisioned".
type UsageSegment struct {
	Percent int
	Class   string
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
