package query

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// vmRow is the scan target for all rows of a result with the columns vmRowColumnsSQL. Values that many VMs have, such
// as project names and labels, are decoded once per result and shared, so callers must not modify them.
type vmRow struct {
	db.VM
	scanTargets []any

	project, host, hostName, projectName, ordered, power, maintained cachedColumn[string]
	labels                                                           cachedColumn[map[string]string]
	addresses                                                        stringList
	nextBoot                                                         []string
	pendingUnplug                                                    []fleet.PendingUnplug
	fullSpec                                                         *fleet.VMSpec
	seen                                                             *time.Time
	freshFor                                                         *time.Duration
	now                                                              time.Time
	load                                                             *float64
}

func scanVMRows() pgx.RowToFunc[fleet.VMView] {
	r := new(vmRow)
	decodeString := func(text []byte) (string, error) { return string(text), nil }
	for _, t := range []*cachedColumn[string]{&r.project, &r.host, &r.hostName, &r.projectName, &r.ordered, &r.power, &r.maintained} {
		t.read = decodeString
	}
	r.labels.read = func(text []byte) (labels map[string]string, err error) {
		err = json.Unmarshal(text, &labels)
		return labels, err
	}
	r.scanTargets = []any{
		&r.ID, &r.project, &r.host, &r.Name, &r.labels, &r.Description, &r.Cpus, &r.MemoryMib, &r.Generation, &r.CreatedAt, &r.DeletedAt,
		&r.ObservedGeneration, &r.ordered, &r.Elsewhere, &r.Misplaced, &r.power, &r.nextBoot, &r.pendingUnplug, &r.addresses, &r.fullSpec, &r.Status,
		&r.IgnoredDrift, &r.ExpiresAt, &r.ExpiryStops, &r.Expiry, &r.ScheduleTrouble, &r.hostName, &r.projectName, &r.seen, &r.freshFor, &r.maintained, &r.now, &r.load,
	}
	return r.scanRow
}

func (r *vmRow) scanRow(row pgx.CollectableRow) (fleet.VMView, error) {
	r.Misplaced, r.ExpiresAt, r.IgnoredDrift = nil, nil, nil
	// reset the values of the previous row
	r.Elsewhere, r.nextBoot, r.pendingUnplug, r.fullSpec, r.Status, r.Spec = nil, nil, nil, nil, nil, fleet.VMSpec{}
	err := row.Scan(r.scanTargets...)
	if r.fullSpec != nil {
		r.Spec = *r.fullSpec
	}
	r.ProjectID, r.HostID, r.Labels, r.Ordered = fleet.ProjectID(r.project.value), fleet.HostID(r.host.value), r.labels.value, fleet.Power(r.ordered.value)
	r.Spec.CPUs, r.Spec.MemoryMiB = int(r.Cpus), int(r.MemoryMib)
	if r.Status == nil && r.power.known {
		r.Status = &fleet.VMStatus{Power: fleet.Power(r.power.value), NextBoot: r.nextBoot, PendingUnplug: r.pendingUnplug}
		if len(r.addresses) > 0 {
			r.Status.NICs = []fleet.NICState{{Addresses: r.addresses}}
		}
	}
	return withCPULoad(store.VMView(r.VM, r.hostName.value, r.projectName.value, fleet.NewReportTime(r.seen, r.freshFor), fleet.MaintenanceState(r.maintained.value), r.now), r.load), err
}

// cachedColumn is the scan target for a column with few different values. It decodes each value once. known is false if
// the value is NULL.
type cachedColumn[T any] struct {
	value   T
	known   bool
	read    func([]byte) (T, error)
	decoded map[string]T
}

// maxCachedValues is the maximum number of cached values of a column. With more different values the cache would hardly
// help.
const maxCachedValues = 1000

// ScanBytes implements pgtype.BytesScanner.
func (s *cachedColumn[T]) ScanBytes(text []byte) (err error) {
	var known bool
	if s.value, known = s.decoded[string(text)]; known || text == nil {
		s.known = text != nil
		return nil
	}
	if s.value, err = s.read(text); err != nil {
		return err
	}
	if s.known = true; s.decoded == nil {
		s.decoded = map[string]T{}
	}
	if len(s.decoded) < maxCachedValues {
		s.decoded[string(text)] = s.value
	}
	return nil
}

// stringList is a JSON array of strings.
type stringList []string

// ScanBytes implements pgtype.BytesScanner.
func (t *stringList) ScanBytes(text []byte) error {
	*t = nil
	if bytes.IndexByte(text, '\\') >= 0 {
		return json.Unmarshal(text, t)
	}
	// The text contains no escapes, so every second part between quotation marks is a string.
	parts := strings.Split(string(text), `"`)
	for i := 1; i < len(parts); i += 2 {
		parts[i/2] = parts[i]
	}
	*t = parts[:len(parts)/2]
	return nil
}
