package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// fieldBound limits a field of a message: the bytes of a text, the entries of a list, or a quantity. A longer text is
// cut. A longer list is an error, because each entry matters. Only lists that guests can make long are cut instead.
type fieldBound struct {
	limit     int
	truncate  bool // list: drop the entries beyond the limit
	keepLines bool // text: keep line breaks and tabs
}

// Bounds of fields that the tables below do not name.
var (
	defaultText = fieldBound{limit: 1 << 10}
	defaultList = fieldBound{limit: 1 << 10}
)

// boundsByName are the bounds of all fields with this name, in every message.
var boundsByName = map[string]fieldBound{
	"Name": {limit: 255}, "Text": {limit: 4 << 10, keepLines: true}, "Error": {limit: 4 << 10, keepLines: true},
	"Path": {limit: 4 << 10}, "MountPath": {limit: 4 << 10}, "Backing": {limit: 4 << 10},
}

// boundsByField overrides boundsByName. Valid messages stay far below these limits: an agent lists at most 2,000
// volumes of a pool.
var boundsByField = map[string]fieldBound{
	"State.VMs": {limit: 4 << 10}, "State.Discovered": {limit: 4 << 10}, "State.Pools": {limit: 256},
	"State.Networks": {limit: 4 << 10}, "State.Groups": {limit: 4 << 10},
	"PoolStatus.Volumes": {limit: 4 << 10}, "VMStatus.Disks": {limit: 256}, "VMStatus.NICs": {limit: 256},
	"VMStatus.Checks":    {limit: fleet.MaxHealthChecks, truncate: true},
	"VMStatus.Health":    {limit: fleet.MaxHealthChecks, truncate: true},
	"HealthState.Answer": {limit: fleet.MaxHealthAnswer}, "HealthCheck.Path": {limit: 256},
	"HealthCheck.Program": {limit: fleet.MaxProgram}, "HealthCheck.Args": {limit: fleet.MaxCheckArgs, keepLines: true},
	"GuestOutput.Stdout": {limit: fleet.MaxGuestOutput, keepLines: true},
	"GuestOutput.Stderr": {limit: fleet.MaxGuestOutput, keepLines: true}, "HealthCheck.Kind": {limit: 16},
	"HealthCheck.Action": {limit: 16}, "HealthState.State": {limit: 16},
	"NICState.Addresses": {limit: 64, truncate: true}, "NICState.Seen": {limit: 64, truncate: true},
	"SeenAddress.By": {limit: 3, truncate: true}, "VMStatus.Modules": {limit: fleet.MaxModules, truncate: true},
	"VMStatus.PendingUnplug": {limit: 256, truncate: true}, "PendingUnplug.What": {limit: 255},
	"NetworkStatus.Leases": {limit: 1 << 10, truncate: true}, "HostNIC.Addresses": {limit: 256, truncate: true},
	"LaunchInfo.Kind": {limit: 16}, "LaunchInfo.Measurement": {limit: fleet.MaxMeasurement},
	"HostDevice.Parents":  {limit: 64, truncate: true},
	"CPUModelGap.Missing": {limit: fleet.MaxMissingFeatures, truncate: true}, "Inventory.CPUModelGaps": {limit: fleet.MaxCPUModelGaps, truncate: true},
	"Inventory.Disks": {limit: 10000}, "Inventory.NICs": {limit: 10000}, "NUMANode.Threads": {limit: 10000},
	"Results.Results": {limit: MaxResults}, "Report.Meters": {limit: 4 << 10}, "Report.Guests": {limit: MaxGuests},
	"GuestReading.FileSystems": {limit: fleet.MaxGuestFileSystems, truncate: true},
	"GuestReading.Users":       {limit: fleet.MaxGuestUsers, truncate: true},
	"GuestStatus.Version":      {limit: fleet.MaxGuestText}, "GuestStatus.OS": {limit: fleet.MaxGuestText},
	"GuestStatus.Kernel": {limit: fleet.MaxGuestText}, "GuestStatus.Hostname": {limit: fleet.MaxGuestText},
	"GuestFileSystem.Path": {limit: fleet.MaxGuestText}, "GuestFileSystem.Type": {limit: fleet.MaxGuestText},
	"GuestUser.Domain": {limit: fleet.MaxGuestText}, "GuestReading.AgoMs": {limit: 24 * 3600 * 1000},
	"FilterCounts.NICs": {limit: secgroup.MaxCountedNICs}, "FilterCounts.AgoMs": {limit: 24 * 3600 * 1000},
	"Report.StateAgeMs": {limit: 24 * 3600 * 1000},
	"JoinRequest.CSR":   {limit: 17 << 10, keepLines: true}, "RenewRequest.CSR": {limit: 17 << 10, keepLines: true},
}

// unboundedNumbers are number fields without the limit maxQuantity: sequence numbers, and counters that grow forever.
var unboundedNumbers = map[string]bool{"Seq": true, "Epoch": true, "Newest": true, "Stamped": true, "Generation": true, "CPUNanos": true}

// maxQuantity is larger than any real quantity, and the sum of a thousand such quantities does not overflow.
const maxQuantity = 1 << 53

// knownValues lists the accepted values of enumerated texts.
var knownValues = map[reflect.Type][]string{
	reflect.TypeFor[fleet.Power]():       {"", string(fleet.Running), string(fleet.Paused), string(fleet.Stopped), string(fleet.Crashed), string(fleet.Absent)},
	reflect.TypeFor[fleet.NetworkKind](): {string(fleet.NetworkLibvirt), string(fleet.NetworkBridge)},
	reflect.TypeFor[fleet.PoolState](): {
		"", string(fleet.PoolPending), string(fleet.PoolActive), string(fleet.PoolInactive), string(fleet.PoolFailed), string(fleet.PoolStalled),
	},
}

// required names the fields with an identifier that must not be empty.
var required = map[string]bool{"VMReport.ID": true, "DiscoveredVM.ID": true, "Meter.ID": true, "GuestReading.ID": true, "NICCount.ID": true, "GroupReport.ID": true, "Lease.ID": true, "Result.Job": true}

// EnforceBounds enforces the bounds of a message from an agent. It cuts long texts, replaces characters that cannot be
// displayed, raises negative quantities to 0, and drops entries that repeat an earlier entry's key. Any other violation
// is an Invalid error that names the field.
//
// Samples never make a report invalid. If they violate a bound, they are dropped, and Samples.Refused has the reason.
func EnforceBounds[T any](message *T) error {
	if r, ok := any(message).(*Report); ok && r.Samples != nil {
		samples := r.Samples
		r.Samples = nil
		defer func() { r.Samples = boundSamples(samples) }()
	}
	if bad := enforceValueBounds(reflect.ValueOf(message).Elem(), fieldPlan{}); bad != nil {
		var c fleet.Checks
		c.Add(strings.TrimPrefix(bad.path, "."), "%s", bad.text)
		return c.Err()
	}
	if r, ok := any(message).(*Report); ok {
		r.dropDuplicates()
		return r.checkRuleCount()
	}
	return nil
}

// checkRuleCount refuses a report with more than secgroup.MaxCountedRules rule counts, over all NICs.
func (r *Report) checkRuleCount() error {
	if r.Filters == nil {
		return nil
	}
	n := 0
	for _, c := range r.Filters.NICs {
		n += len(c.Rules)
	}
	var c fleet.Checks
	if n > secgroup.MaxCountedRules {
		c.Add("filters.cards", "The report has counts of %d rules; %d at most are accepted.", n, secgroup.MaxCountedRules)
	}
	return c.Err()
}

// violation is a value that EnforceBounds refuses, and its path: ".state.vms[3].id".
type violation struct{ path, text string }

func (m *violation) withPathPrefix(step string) *violation { return &violation{step + m.path, m.text} }

// fieldPlan holds the bounds and checks of one field of a struct.
type fieldPlan struct {
	path                    string // ".vms"; empty for an embedded struct
	text, list              fieldBound
	limit                   int64 // largest value of a quantity
	required, id, knownOnly bool
	known                   []string
}

// fieldPlans caches the result of fieldPlansOf for each struct type.
var fieldPlans sync.Map // reflect.Type -> []field

func fieldPlansOf(t reflect.Type) []fieldPlan {
	if known, ok := fieldPlans.Load(t); ok {
		return known.([]fieldPlan)
	}
	plan := make([]fieldPlan, t.NumField())
	for i := range plan {
		f, name := t.Field(i), t.Name()+"."+t.Field(i).Name
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		plan[i] = fieldPlan{text: defaultText, list: defaultList, limit: maxQuantity, required: required[name]}
		if unboundedNumbers[f.Name] {
			plan[i].limit = math.MaxInt64
		}
		if !f.Anonymous {
			plan[i].path = "." + tag
		}
		own, ok := boundsByField[name]
		if !ok {
			own, ok = boundsByName[f.Name]
		}
		switch {
		case ok && f.Type.Kind() == reflect.Slice:
			plan[i].list = own
		case ok:
			plan[i].text, plan[i].limit = own, int64(own.limit)
		}
		plan[i].known, plan[i].knownOnly = knownValues[f.Type]
		plan[i].id = f.Type.PkgPath() != "" && f.Type.Kind() == reflect.String && strings.HasSuffix(f.Type.Name(), "ID")
	}
	fieldPlans.Store(t, plan)
	return plan
}

// enforceValueBounds applies the bounds of field f to one value.
func enforceValueBounds(v reflect.Value, f fieldPlan) *violation {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return enforceValueBounds(v.Elem(), f)
		}
	case reflect.Struct:
		return enforceStructBounds(v)
	case reflect.Slice:
		return enforceListBounds(v, f)
	case reflect.Map:
		return enforceMapBounds(v, f)
	case reflect.String:
		return enforceTextBounds(v, f)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(min(max(v.Int(), 0), f.limit))
	case reflect.Float64:
		v.SetFloat(min(max(v.Float(), 0), float64(f.limit)))
	case reflect.Bool:
	default:
		panic("wire: no bound for a " + v.Kind().String())
	}
	return nil
}

func enforceStructBounds(v reflect.Value) *violation {
	if at, ok := reflect.TypeAssert[*time.Time](v.Addr()); ok {
		if *at = at.UTC(); at.Year() < 1970 || at.Year() > 9998 {
			return &violation{text: "This is not a valid time."}
		}
		return nil
	}
	for i, f := range fieldPlansOf(v.Type()) {
		if bad := enforceValueBounds(v.Field(i), f); bad != nil {
			return bad.withPathPrefix(f.path)
		}
	}
	return nil
}

// enforceMapBounds applies the bounds of field f to a map's number of entries, and to each key and value.
func enforceMapBounds(v reflect.Value, f fieldPlan) *violation {
	if n := v.Len(); n > f.list.limit {
		return &violation{text: fmt.Sprintf("A map here has at most %d entries, not %d.", f.list.limit, n)}
	}
	if v.IsNil() {
		return nil
	}
	bounded := reflect.MakeMapWithSize(v.Type(), v.Len())
	for each := v.MapRange(); each.Next(); {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.Set(each.Key())
		value.Set(each.Value())
		for _, part := range []reflect.Value{key, value} {
			if bad := enforceValueBounds(part, f); bad != nil {
				return bad
			}
		}
		bounded.SetMapIndex(key, value)
	}
	v.Set(bounded)
	return nil
}

func enforceListBounds(v reflect.Value, f fieldPlan) *violation {
	if raw, ok := reflect.TypeAssert[json.RawMessage](v); ok {
		v.SetBytes(normalizeJSON(raw))
		return nil
	}
	if n := v.Len(); n > f.list.limit {
		if !f.list.truncate {
			return &violation{text: fmt.Sprintf("A list here has at most %d entries, not %d.", f.list.limit, n)}
		}
		v.Set(v.Slice(0, f.list.limit))
	}
	for i := range v.Len() {
		if bad := enforceValueBounds(v.Index(i), fieldPlan{text: f.text, list: defaultList, limit: maxQuantity}); bad != nil {
			return bad.withPathPrefix("[" + strconv.Itoa(i) + "]")
		}
	}
	return nil
}

func enforceTextBounds(v reflect.Value, f fieldPlan) *violation {
	s := v.String()
	switch {
	case f.knownOnly && !slices.Contains(f.known, s):
		return &violation{text: fmt.Sprintf("This portal does not know %q.", sanitize(s, fieldBound{limit: 40}))}
	case f.id && (s != "" || f.required) && !fleet.IsID(s):
		return &violation{text: "This is not an identifier."}
	case f.id:
		return nil
	}
	if clean := sanitize(s, f.text); clean != s {
		v.SetString(clean)
	}
	return nil
}

// normalizeJSON returns raw as JSON that PostgreSQL can store; nil if raw is invalid.
func normalizeJSON(raw json.RawMessage) json.RawMessage {
	var v any
	if len(raw) > defaultText.limit || bytes.Contains(raw, []byte(`\u0000`)) || json.Unmarshal(raw, &v) != nil {
		return nil
	}
	out, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return out
}

// sanitize cuts the text to the bound and replaces characters that cannot be displayed. PostgreSQL stores no NUL
// characters, and bidirectional control characters can make one name look like another.
func sanitize(s string, b fieldBound) string {
	hidden := func(r rune) bool {
		switch r {
		case '\n', '\r', '\t':
			return !b.keepLines
		}
		return unicode.IsControl(r) || r >= 0x600 && unicode.Is(unicode.Bidi_Control, r)
	}
	if strings.ContainsFunc(s, hidden) || !utf8.ValidString(s) {
		s = strings.Map(func(r rune) rune {
			if hidden(r) {
				return utf8.RuneError
			}
			return r
		}, s)
	}
	if len(s) <= b.limit {
		return s
	}
	n := b.limit
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// SanitizeLine returns text from a guest or a host as one line of at most limit bytes. It replaces characters that
// cannot be displayed.
func SanitizeLine(text string, limit int) string { return sanitize(text, fieldBound{limit: limit}) }

// SanitizeLines is SanitizeLine for text with several lines.
func SanitizeLines(text string, limit int) string {
	return sanitize(text, fieldBound{limit: limit, keepLines: true})
}

// dropDuplicates drops entries that repeat an earlier entry's key. A domain is either a Quantix VM or a discovered VM,
// never both.
func (r *Report) dropDuplicates() {
	if f := r.Filters; f != nil {
		f.NICs = dropRepeated(f.NICs, map[string]bool{}, func(c secgroup.NICCount) string { return string(c.ID) + " " + strings.ToLower(c.MAC) })
	}
	r.Meters = dropRepeated(r.Meters, map[string]bool{}, func(m Meter) string { return string(m.ID) })
	r.Guests = dropRepeated(r.Guests, map[string]bool{}, func(g fleet.GuestReading) string { return string(g.ID) })
	s := r.State
	if s == nil {
		return
	}
	domains := map[string]bool{}
	s.VMs = dropRepeated(s.VMs, domains, func(v VMReport) string { return string(v.ID) })
	s.Discovered = dropRepeated(s.Discovered, domains, func(f fleet.DiscoveredVM) string { return string(f.ID) })
	s.Groups = dropRepeated(s.Groups, map[string]bool{}, func(g GroupReport) string { return string(g.ID) })
	s.Pools = dropRepeated(s.Pools, map[string]bool{}, func(p PoolReport) string { return p.Name })
	s.Networks = dropRepeated(s.Networks, map[string]bool{}, func(n NetworkReport) string { return string(n.Kind) + ":" + n.Name })
}

func dropRepeated[T any](all []T, seen map[string]bool, key func(T) string) []T {
	return slices.DeleteFunc(all, func(v T) bool {
		k := key(v)
		again := seen[k]
		seen[k] = true
		return again
	})
}
