package fleet

// Meter is the load of one running VM since its start; rates are the portal's to compute.
type Meter struct {
	ID           VMID  `json:"id"`
	CPUNanos     int64 `json:"cpuNanos"`
	MemoryBytes  int64 `json:"memoryBytes"` // resident
	ReadBytes    int64 `json:"readBytes"`
	WriteBytes   int64 `json:"writeBytes"`
	ReceiveBytes int64 `json:"receiveBytes"`
	SendBytes    int64 `json:"sendBytes"`
}

// HostMeter is the host's own load.
type HostMeter struct {
	CPUPercent  float64 `json:"cpuPercent"`
	MemoryUsed  int64   `json:"memoryUsed"`
	MemoryTotal int64   `json:"memoryTotal"`
}
