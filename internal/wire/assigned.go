package wire

import (
	"reflect"

	"quantix/internal/fleet"
)

// AssignedObjects lists the objects that are assigned to a host and that the host reports.
type AssignedObjects struct {
	Pools    []fleet.Pool    `json:"pools"`              // reported with their volumes
	Networks []fleet.Network `json:"networks,omitempty"` // with their specs
}

// Equal reports whether both list the same objects. A nil list equals an empty one.
func (a AssignedObjects) Equal(b AssignedObjects) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if x.Field(i).Len()+y.Field(i).Len() > 0 && !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			return false
		}
	}
	return true
}

// ObjectReport is a host's report on an object that is assigned to it, whatever the object's type.
type ObjectReport struct {
	Type   fleet.ResourceType `json:"type"`
	ID     string             `json:"id,omitempty"`
	Name   string             `json:"name,omitempty"`
	Status any                `json:"status"` // fleet.PoolStatus or the status of another type
}

// AssignedObjectReports returns the reports on assigned objects of all types except networks, which the portal matches by
// name.
func (s State) AssignedObjectReports() []ObjectReport {
	out := make([]ObjectReport, 0, len(s.Pools))
	for _, p := range s.Pools {
		out = append(out, ObjectReport{Type: fleet.TypePool, ID: string(p.ID), Name: p.Name, Status: p.Status})
	}
	return out
}
