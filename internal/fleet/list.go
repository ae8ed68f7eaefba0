package fleet

import "time"

// Query asks for one page of a list.
type Query struct {
	Filter  string    // the filter language: "phase:running label:env=prod name:web*"
	Sort    string    // a column's key, with "-" in front for descending; empty: the list's own order
	Limit   int       // 1…500; 0: 100
	After   string    // the Next of the page before
	Before  string    // the Prev of the page after; never together with After
	Project ProjectID // empty: all that the actor may see
}

// Page is one page of a list. Next is the cursor of the page after it, empty at the end; Prev that of the page before it,
// empty at the start. Where the page was reached by a cursor, the rows on that side are those that the cursor was made beside:
// they were there then.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"`
	Prev  string `json:"prev,omitempty"`
}

// AuditEntry is one line of what people did.
type AuditEntry struct {
	ID      int64     `json:"id"`
	At      time.Time `json:"at"`
	Actor   string    `json:"actor"`
	Address string    `json:"address,omitempty"`
	Action  string    `json:"action"`  // "vm.create"
	Subject string    `json:"subject"` // "vm:<id>"
	Name    string    `json:"name"`
	Detail  string    `json:"detail,omitempty"`
}

// SearchHit is one result of the global search.
type SearchHit struct {
	Kind     string   `json:"kind"` // "vm", "host", "pool", "network", "project", "found"
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Hint     string   `json:"hint"`            // what matched: an address, a label, …
	Phase    string   `json:"phase,omitempty"` // Word of the phase
	Severity Severity `json:"tone,omitempty"`
}

// Overview is the dashboard.
type Overview struct {
	Hosts                map[HostPhase]int `json:"hosts"`
	VMs                  map[Phase]int     `json:"vms"`
	VMsInNeed            int               `json:"vmsInNeed"`  // of the VMs, those that wait for a person
	VMsDrifted           int               `json:"vmsDrifted"` // of the VMs, those that drifted on a host that is heard
	DiscoveredVMs        int               `json:"foundVms"`
	Pools                map[Severity]int  `json:"pools"`
	CPUThreads           int               `json:"cpuThreads"`
	CommittedCPUs        int               `json:"committedCpus"`
	MemoryBytes          int64             `json:"memoryBytes"`
	CommittedMemoryBytes int64             `json:"committedMemoryBytes"`
	StorageBytes         int64             `json:"storageBytes"`
	StorageUsedBytes     int64             `json:"storageUsedBytes"`
	Attention            []Attention       `json:"attention"` // one row for each cause, at most 20, worst first
	CountedAt            time.Time         `json:"countedAt"`
}

// VMTotals is how many VMs there are.
type VMTotals struct {
	Phases     map[Phase]int
	InNeed     int // of them, those that wait for a person
	Discovered int // that Quantix did not make
}
