// Package timeseries encodes metric values over time for the database: the samples of a host at one time (Row), and the
// values of one object over an hour, a day or a month (Chunk). It also converts samples into points of equal length
// (Buckets).
//
// Values are stored with a limited precision, which makes idle and steady objects almost free. ADR 100 has the reasons
// and the sizes.
package timeseries
