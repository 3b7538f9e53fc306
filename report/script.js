'use strict';
(function () {
  var order = new Intl.Collator(undefined, { numeric: true, sensitivity: 'base' });
  function key(row, column) {
    var cell = row.cells[column];
    return cell.hasAttribute('data-v') ? Number(cell.getAttribute('data-v')) : cell.textContent.trim();
  }
  function compare(a, b) {
    return typeof a === 'number' && typeof b === 'number' ? a - b : order.compare(a, b);
  }
  function sortBy(table, th, column) {
    var down = th.getAttribute('aria-sort') === 'ascending';
    table.querySelectorAll('th[aria-sort]').forEach(function (h) { h.removeAttribute('aria-sort'); });
    th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    var body = table.tBodies[0];
    var rows = Array.from(body.rows).map(function (row, i) { return { row: row, key: key(row, column), i: i }; });
    rows.sort(function (a, b) { return (down ? compare(b.key, a.key) : compare(a.key, b.key)) || a.i - b.i; });
    body.append.apply(body, rows.map(function (r) { return r.row; }));
  }
  function makeSortable(table) {
    Array.from(table.tHead.rows[0].cells).forEach(function (th, column) {
      var button = document.createElement('button');
      button.type = 'button';
      button.append.apply(button, Array.from(th.childNodes));
      button.addEventListener('click', function () { sortBy(table, th, column); });
      th.append(button);
    });
  }
  function makeFilter(table, n) {
    var label = document.createElement('label'), input = document.createElement('input'), told = document.createElement('span');
    var div = document.createElement('div'), rows = Array.from(table.tBodies[0].rows);
    var texts = rows.map(function (row) { return row.textContent.toLowerCase(); });
    input.type = 'search';
    input.id = 'filter-' + n;
    label.htmlFor = input.id;
    label.textContent = 'Filter ' + table.caption.textContent.trim().split('\n')[0].toLowerCase() + ': ';
    told.setAttribute('role', 'status');
    input.addEventListener('input', function () {
      var words = input.value.toLowerCase().split(/\s+/).filter(Boolean), shown = 0;
      rows.forEach(function (row, i) {
        row.hidden = !words.every(function (w) { return texts[i].includes(w); });
        shown += row.hidden ? 0 : 1;
      });
      told.textContent = words.length ? shown + ' of ' + rows.length + ' rows' : '';
    });
    div.className = 'filter';
    div.append(label, input, told);
    table.parentNode.before(div);
  }
  document.querySelectorAll('table.data').forEach(function (table, n) {
    if (table.tBodies[0].rows.length > 1) { makeSortable(table); }
    if (table.tBodies[0].rows.length > 7) { makeFilter(table, n); }
  });
  addEventListener('beforeprint', function () {
    document.querySelectorAll('details').forEach(function (d) { d.open = true; });
  });
})();
