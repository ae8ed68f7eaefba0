// Package usage holds values of pages that are computed from metrics: the top consumers, the use of VMs and hosts in the
// last hour, and the growth of pools.
package usage

import (
	"math"
	"time"

	"quantix/internal/fleet"
)

// MaxTopConsumers is the number of VMs or hosts in a list of top consumers.
const MaxTopConsumers = 5

// TopConsumers are the VMs, and for people who see hosts the hosts, with the highest newest values of one resource.
type TopConsumers struct {
	Title      string // "CPU"
	Unit       fleet.MetricUnit
	VMs, Hosts []Consumer // highest first
}

// Consumer is a VM or host with its newest value of a resource.
type Consumer struct {
	ID, Name string
	Value    float64
}

// RecentSlots is the number of values in Recent. Each value is the newest one of two minutes.
const (
	RecentSlots = 30
	RecentSlot  = 2 * time.Minute
)

// Recent is the use of a VM or host in the last hour, in percent, oldest first. NaN: nothing was measured. A VM's
// percentages are those of its vCPUs and its memory.
type Recent struct{ CPU, Memory [RecentSlots]float64 }

// NewRecent returns a Recent without values.
func NewRecent() *Recent {
	r := &Recent{}
	for i := range r.CPU {
		r.CPU[i], r.Memory[i] = math.NaN(), math.NaN()
	}
	return r
}

// OrNone returns r, or a Recent without values for nil.
func (r *Recent) OrNone() *Recent {
	if r == nil {
		return NewRecent()
	}
	return r
}

// Growth is the result of a prediction when a pool will be full.
type Growth string

// Results of predictions. The empty Growth: not predicted yet.
const (
	GrowsFull   Growth = "full"   // the pool will be full at a known time
	GrowsSlowly Growth = "slowly" // the pool grows, and will not be full within the time that can be predicted
	GrowsNot    Growth = "not"    // the pool does not grow, or not more than its values vary
	GrowsFew    Growth = "few"    // there are too few values
	GrowsStale  Growth = "stale"  // there is no newest value
)

// PoolGrowth is the newest prediction for a pool, for a local pool on the host where it will be full first.
type PoolGrowth struct {
	Growth
	HostName    string // of a local pool on several hosts
	Hosts       int    // hosts of a local pool with a prediction; 1 for a shared pool
	FullAt      time.Time
	Days        int // days of the values
	PredictedAt time.Time
	Fresh       bool // the prediction is at most three hours old, and its host is online
}
