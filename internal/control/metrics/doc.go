// Package metrics stores the values that hosts measure and reads them as points over time. Samples of a host are rows
// that are kept for hours. When an hour, a day or a month has passed, a pass writes its points into one row per object,
// which never changes. The points of the current period are computed when they are read.
package metrics
