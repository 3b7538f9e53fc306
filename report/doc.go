// Package report writes what is known of a ClusterImage, of an upgrade between
// two, and of a cluster that was made of one, as a single HTML file: for the people
// who decide whether an image may pass, and who keep the record.
//
// The file needs no network, no server and no further file. Everything in it can be
// read without JavaScript; its own script sorts and filters the tables. A
// Content-Security-Policy in the file forbids all that is not part of it.
//
// A Report is plain data. OfImage fills one from images, OfChange from a
// comparison, OfCluster from the records of a cluster, and Write makes the page.
// Names, annotations and file names come from images and are hostile: html/template
// escapes them for their place, and controls and bidirectional marks are shown as
// escapes.
package report
