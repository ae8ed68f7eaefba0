package fleet

// Meter holds the cumulative counters of one running VM since its start. The portal computes rates from them.
type Meter struct {
	ID           VMID  `json:"id"`
	CPUNanos     int64 `json:"cpuNanos"`
	MemoryBytes  int64 `json:"memoryBytes"` // resident memory
	ReadBytes    int64 `json:"readBytes"`
	WriteBytes   int64 `json:"writeBytes"`
	ReceiveBytes int64 `json:"receiveBytes"`
	SendBytes    int64 `json:"sendBytes"`
}

// HostLoad is the load of the host itself: its meter, and its values of HostMetrics by name.
type HostLoad struct {
	HostMeter
	Metrics  map[string]MetricValue
	Counters map[string]float64 // since the machine's start: the sources of rates; in seconds, bytes, operations, packets, joules
}

// HostMeter is the load of the host itself, as pages of hosts show it.
type HostMeter struct {
	CPUPercent  float64 `json:"cpuPercent"`
	MemoryUsed  int64   `json:"memoryUsed"`
	MemoryTotal int64   `json:"memoryTotal"`
}
