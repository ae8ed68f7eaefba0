package fleet

// Bulk is what became of one action that a person asked of many VMs at once.
type Bulk struct {
	ID      BulkID
	Action  Action
	Results BulkResults
	Tasks   map[JobID]Job // as they stand now; those that are gone, or may not be seen any more, are missing
}

// BulkResults are the results of a bulk action in the order in which the VMs were named.
type BulkResults []BulkResult

// BulkResult is one VM's part of it: a task, or why not.
type BulkResult struct {
	VM    VMID   `json:"vm"`
	Name  string `json:"name"`
	Task  JobID  `json:"task,omitempty"`
	Error string `json:"error,omitempty"`
}
