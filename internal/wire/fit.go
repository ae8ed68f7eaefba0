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
)

// bound is how much of a field a message may hold: bytes of a text, entries of a list, a quantity. What is more is cut off a text, and makes a
// list, whose every entry means something, a refusal; but for lists that guests can make long.
type bound struct {
	most  int
	cut   bool // of a list: the rest is left out
	lines bool // of a text: line breaks and tabs stay
}

// Bounds of what no line of the table below names, and so of each field to come.
var (
	usualText = bound{most: 1 << 10}
	usualList = bound{most: 1 << 10}
)

// byName holds for a field in whichever message it stands.
var byName = map[string]bound{
	"Name": {most: 255}, "Text": {most: 4 << 10, lines: true}, "Error": {most: 4 << 10, lines: true}, "Path": {most: 4 << 10}, "MountPath": {most: 4 << 10}, "Backing": {most: 4 << 10},
}

// byField goes before byName. No honest host comes near these: its agent lists at most 2,000 volumes of a pool.
var byField = map[string]bound{
	"State.VMs": {most: 4 << 10}, "State.Found": {most: 4 << 10}, "State.Pools": {most: 256}, "State.Networks": {most: 4 << 10}, "State.Groups": {most: 4 << 10},
	"PoolStatus.Volumes": {most: 4 << 10}, "VMStatus.Disks": {most: 256}, "VMStatus.NICs": {most: 256}, "VMStatus.Checks": {most: fleet.MaxHealthChecks, cut: true}, "VMStatus.Health": {most: fleet.MaxHealthChecks, cut: true},
	"HealthState.Said": {most: fleet.MaxHealthWords}, "HealthCheck.Path": {most: 256}, "HealthCheck.Program": {most: fleet.MaxProgram}, "HealthCheck.Args": {most: fleet.MaxCheckArgs, lines: true},
	"GuestOutput.Stdout": {most: fleet.MaxGuestOutput, lines: true}, "GuestOutput.Stderr": {most: fleet.MaxGuestOutput, lines: true}, "HealthCheck.Kind": {most: 16}, "HealthCheck.Action": {most: 16}, "HealthState.State": {most: 16},
	"NICState.Addresses": {most: 64, cut: true}, "NICState.Seen": {most: 64, cut: true}, "SeenAddress.By": {most: 3, cut: true}, "VMStatus.Modules": {most: fleet.MaxModules, cut: true}, "VMStatus.HeldBack": {most: 256, cut: true}, "HeldBack.What": {most: 255}, "NetworkStatus.Leases": {most: 1 << 10, cut: true}, "HostNIC.Addresses": {most: 256, cut: true},
	"LaunchInfo.Kind": {most: 16}, "LaunchInfo.Measurement": {most: fleet.MaxMeasurement}, "HostDevice.Parents": {most: 64, cut: true},
	"Inventory.Disks": {most: 10000}, "Inventory.NICs": {most: 10000}, "NUMANode.Threads": {most: 10000},
	"Results.Results": {most: MaxResults}, "Report.Meters": {most: 4 << 10}, "Report.Guests": {most: MaxGuests}, "GuestReading.FileSystems": {most: fleet.MaxGuestFileSystems, cut: true}, "GuestReading.Users": {most: fleet.MaxGuestUsers, cut: true},
	"GuestStatus.Version": {most: fleet.MaxGuestText}, "GuestStatus.OS": {most: fleet.MaxGuestText}, "GuestStatus.Kernel": {most: fleet.MaxGuestText}, "GuestStatus.Hostname": {most: fleet.MaxGuestText},
	"GuestFileSystem.Path": {most: fleet.MaxGuestText}, "GuestFileSystem.Type": {most: fleet.MaxGuestText}, "GuestUser.Domain": {most: fleet.MaxGuestText}, "GuestReading.AgoMs": {most: 24 * 3600 * 1000}, "FilterCounts.Cards": {most: fleet.MaxCountedNICs}, "FilterCounts.AgoMs": {most: 24 * 3600 * 1000}, "Report.LookedAgoMs": {most: 24 * 3600 * 1000},
	"JoinRequest.CSR": {most: 17 << 10, lines: true}, "RenewRequest.CSR": {most: 17 << 10, lines: true},
}

// ordinals are the numbers that only order things, or count for ever; every other one is some quantity: 0 to mostOf.
var ordinals = map[string]bool{"Seq": true, "Epoch": true, "Newest": true, "Stamped": true, "Generation": true, "CPUNanos": true}

// mostOf is beyond any quantity, and such that a thousand of them can be added up.
const mostOf = 1 << 53

// words are the texts of which only these are known.
var words = map[reflect.Type][]string{
	reflect.TypeFor[fleet.Power]():       {"", string(fleet.Running), string(fleet.Paused), string(fleet.Stopped), string(fleet.Crashed), string(fleet.Absent)},
	reflect.TypeFor[fleet.NetworkKind](): {string(fleet.NetworkLibvirt), string(fleet.NetworkBridge)},
	reflect.TypeFor[fleet.PoolState](): {
		"", string(fleet.PoolPending), string(fleet.PoolActive), string(fleet.PoolInactive), string(fleet.PoolFailed), string(fleet.PoolStalled),
	},
}

// needed are the identifiers that must not be empty.
var needed = map[string]bool{"VMReport.ID": true, "FoundVM.ID": true, "Meter.ID": true, "GuestReading.ID": true, "CardCount.ID": true, "GroupReport.ID": true, "Lease.ID": true, "Result.Job": true}

// Fit makes an agent's message keep its bounds: texts are cut and lose what no screen shows, quantities are no less than nothing,
// of entries with one key the first counts. What cannot be mended so is Invalid, with the field.
func Fit[T any](message *T) error {
	if wrong := fit(reflect.ValueOf(message).Elem(), field{}); wrong != nil {
		var c fleet.Checks
		c.Add(strings.TrimPrefix(wrong.path, "."), "%s", wrong.text)
		return c.Err()
	}
	if r, ok := any(message).(*Report); ok {
		r.once()
		return r.fewRules()
	}
	return nil
}

// fewRules refuses counts of more rules than all cards of a host are told of together.
func (r *Report) fewRules() error {
	if r.Filters == nil {
		return nil
	}
	n := 0
	for _, c := range r.Filters.NICs {
		n += len(c.Rules)
	}
	var c fleet.Checks
	if n > fleet.MaxCountedRules {
		c.Add("filters.cards", "Counts of %d rules are more than the %d that a report has.", n, fleet.MaxCountedRules)
	}
	return c.Err()
}

// misfit is what Fit refuses, and where: ".state.vms[3].id".
type misfit struct{ path, text string }

func (m *misfit) at(step string) *misfit { return &misfit{step + m.path, m.text} }

// field is what holds for one field of a struct.
type field struct {
	path               string // ".vms"; empty: an embedded struct
	text, list         bound
	most               int64 // of a quantity
	needed, id, closed bool
	known              []string
}

// plans holds the fields of each struct that a message has had.
var plans sync.Map // reflect.Type -> []field

func planOf(t reflect.Type) []field {
	if known, ok := plans.Load(t); ok {
		return known.([]field)
	}
	plan := make([]field, t.NumField())
	for i := range plan {
		f, name := t.Field(i), t.Name()+"."+t.Field(i).Name
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		plan[i] = field{text: usualText, list: usualList, most: mostOf, needed: needed[name]}
		if ordinals[f.Name] {
			plan[i].most = math.MaxInt64
		}
		if !f.Anonymous {
			plan[i].path = "." + tag
		}
		own, ok := byField[name]
		if !ok {
			own, ok = byName[f.Name]
		}
		switch {
		case ok && f.Type.Kind() == reflect.Slice:
			plan[i].list = own
		case ok:
			plan[i].text, plan[i].most = own, int64(own.most)
		}
		plan[i].known, plan[i].closed = words[f.Type]
		plan[i].id = f.Type.PkgPath() != "" && f.Type.Kind() == reflect.String && strings.HasSuffix(f.Type.Name(), "ID")
	}
	plans.Store(t, plan)
	return plan
}

// fit bounds one value, which is f.
func fit(v reflect.Value, f field) *misfit {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return fit(v.Elem(), f)
		}
	case reflect.Struct:
		return fitStruct(v)
	case reflect.Slice:
		return fitList(v, f)
	case reflect.String:
		return fitText(v, f)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(min(max(v.Int(), 0), f.most))
	case reflect.Float64:
		v.SetFloat(min(max(v.Float(), 0), float64(f.most)))
	case reflect.Bool:
	default:
		panic("wire: no bound for a " + v.Kind().String())
	}
	return nil
}

func fitStruct(v reflect.Value) *misfit {
	if at, ok := reflect.TypeAssert[*time.Time](v.Addr()); ok {
		if *at = at.UTC(); at.Year() < 1970 || at.Year() > 9998 {
			return &misfit{text: "This is no time."}
		}
		return nil
	}
	for i, f := range planOf(v.Type()) {
		if wrong := fit(v.Field(i), f); wrong != nil {
			return wrong.at(f.path)
		}
	}
	return nil
}

func fitList(v reflect.Value, f field) *misfit {
	if raw, ok := reflect.TypeAssert[json.RawMessage](v); ok {
		v.SetBytes(plain(raw))
		return nil
	}
	if n := v.Len(); n > f.list.most {
		if !f.list.cut {
			return &misfit{text: fmt.Sprintf("A list here has at most %d entries, not %d.", f.list.most, n)}
		}
		v.Set(v.Slice(0, f.list.most))
	}
	for i := range v.Len() {
		if wrong := fit(v.Index(i), field{text: f.text, list: usualList, most: mostOf}); wrong != nil {
			return wrong.at("[" + strconv.Itoa(i) + "]")
		}
	}
	return nil
}

func fitText(v reflect.Value, f field) *misfit {
	s := v.String()
	switch {
	case f.closed && !slices.Contains(f.known, s):
		return &misfit{text: fmt.Sprintf("This portal does not know %q.", shown(s, bound{most: 40}))}
	case f.id && (s != "" || f.needed) && !fleet.IsID(s):
		return &misfit{text: "This is no identifier."}
	case f.id:
		return nil
	}
	if clean := shown(s, f.text); clean != s {
		v.SetString(clean)
	}
	return nil
}

// plain is a value of some field as JSON that PostgreSQL stores; nil where it is none.
func plain(raw json.RawMessage) json.RawMessage {
	var v any
	if len(raw) > usualText.most || bytes.Contains(raw, []byte(`\u0000`)) || json.Unmarshal(raw, &v) != nil {
		return nil
	}
	out, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return out
}

// shown is the text as far as it goes and can be shown: PostgreSQL takes no NUL, and what turns the direction of writing makes one
// name look like another.
func shown(s string, b bound) string {
	hidden := func(r rune) bool {
		switch r {
		case '\n', '\r', '\t':
			return !b.lines
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
	if len(s) <= b.most {
		return s
	}
	n := b.most
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Shown is a text of a guest or a host as a message may have it: at most that many bytes, in one line, and only what can be shown.
func Shown(text string, most int) string { return shown(text, bound{most: most}) }

// ShownLines is Shown for a text of several lines.
func ShownLines(text string, most int) string { return shown(text, bound{most: most, lines: true}) }

// once leaves of entries with one key the first. A domain is stamped or found, not both.
func (r *Report) once() {
	if f := r.Filters; f != nil {
		f.NICs = firsts(f.NICs, map[string]bool{}, func(c fleet.NICCount) string { return string(c.ID) + " " + strings.ToLower(c.MAC) })
	}
	r.Meters = firsts(r.Meters, map[string]bool{}, func(m Meter) string { return string(m.ID) })
	r.Guests = firsts(r.Guests, map[string]bool{}, func(g fleet.GuestReading) string { return string(g.ID) })
	s := r.State
	if s == nil {
		return
	}
	domains := map[string]bool{}
	s.VMs = firsts(s.VMs, domains, func(v VMReport) string { return string(v.ID) })
	s.Discovered = firsts(s.Discovered, domains, func(f fleet.DiscoveredVM) string { return string(f.ID) })
	s.Groups = firsts(s.Groups, map[string]bool{}, func(g GroupReport) string { return string(g.ID) })
	s.Pools = firsts(s.Pools, map[string]bool{}, func(p PoolReport) string { return p.Name })
	s.Networks = firsts(s.Networks, map[string]bool{}, func(n NetworkReport) string { return string(n.Kind) + ":" + n.Name })
}

func firsts[T any](all []T, seen map[string]bool, key func(T) string) []T {
	return slices.DeleteFunc(all, func(v T) bool {
		k := key(v)
		again := seen[k]
		seen[k] = true
		return again
	})
}
