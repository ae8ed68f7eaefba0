package fleet

import "time"

// Query selects one page of a list.
type Query struct {
	Filter  string    // filter language: "state:running label:env=prod name:web*"
	Sort    string    // column key, prefixed with "-" for descending order; empty: the list's default order
	Limit   int       // 1…500; 0: 100
	After   string    // Next of the page before
	Before  string    // Prev of the page after; excludes After
	Project ProjectID // empty: all projects that the actor may see
}

// Page is one page of a list. Next is the cursor of the following page, empty at the end. Prev is the cursor of the
// previous page, empty at the start. On a page reached by a cursor, the cursor in the opposite direction is always set,
// because rows existed there when the cursor was created.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"`
	Prev  string `json:"prev,omitempty"`
}

// AuditEntry is one line of the audit log.
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
	Hint     string   `json:"hint"`            // the text that matched: an address, a label, …
	Phase    string   `json:"phase,omitempty"` // text of the object's phase
	Severity Severity `json:"severity,omitempty"`
}

// Overview is the dashboard.
type Overview struct {
	Hosts                 map[HostPhase]int `json:"hosts"`
	VMs                   map[Phase]int     `json:"vms"`
	VMsNeedingAttention   int               `json:"vmsInNeed"`  // VMs that need attention
	VMsDrifted            int               `json:"vmsDrifted"` // VMs with drift on online hosts
	DiscoveredVMs         int               `json:"discoveredVms"`
	DiscoveredCPUs        int64             `json:"discoveredCpus"` // vCPUs of the running discovered VMs
	DiscoveredMemoryBytes int64             `json:"discoveredMemoryBytes"`
	Pools                 map[Severity]int  `json:"pools"`
	CPUThreads            int               `json:"cpuThreads"`
	CommittedCPUs         int               `json:"committedCpus"`
	MemoryBytes           int64             `json:"memoryBytes"`
	CommittedMemoryBytes  int64             `json:"committedMemoryBytes"`
	StorageBytes          int64             `json:"storageBytes"`
	StorageUsedBytes      int64             `json:"storageUsedBytes"`
	Attention             []AttentionCause  `json:"attention"` // one row per cause, at most 20, worst first
	CountedAt             time.Time         `json:"countedAt"`
}

// VMTotals counts the VMs.
type VMTotals struct {
	Phases           map[Phase]int
	NeedingAttention int // VMs that need attention
	Discovered       int // unmanaged VMs
}
